#include "tensora/nn/padding.h"

#include <limits>

#include "tensora/nn/conv_common.h"
#include "tensora/ops/resample/pad.h"

namespace tensora::nn {

namespace {

using detail::PadKind;

struct PadNames {
  std::string_view layer, mode;
};
constexpr PadNames names_of(PadKind kind) {
  switch (kind) {
    case PadKind::zero:
      return {"ZeroPad", "constant"};
    case PadKind::reflection:
      return {"ReflectionPad", "reflect"};
    case PadKind::replication:
      return {"ReplicationPad", "replicate"};
    case PadKind::circular:
      return {"CircularPad", "circular"};
  }
  return {};
}

Shape both_sides(const std::string& layer, const Shape& padding, int dims) {
  return per_dim(layer, "padding", padding, 2 * dims, std::numeric_limits<int64_t>::min());
}

}  // namespace

template <int Dims>
ConstantPad<Dims>::ConstantPad(const Shape& given, double number) : value(number) {
  padding = both_sides(name(), given, Dims);
}
template <int Dims>
Tensor ConstantPad<Dims>::forward(const Tensor& input) const {
  return pad(input, padding.vec(), "constant", value);
}
template <int Dims>
std::string ConstantPad<Dims>::name() const {
  return concat("ConstantPad", Dims, "d");
}
template <int Dims>
std::string ConstantPad<Dims>::extra_repr() const {
  return concat("padding=", repr_tuple(padding), ", value=", repr(value));
}

template <PadKind Kind, int Dims>
Pad<Kind, Dims>::Pad(const Shape& given) {
  padding = both_sides(name(), given, Dims);
}
template <PadKind Kind, int Dims>
Tensor Pad<Kind, Dims>::forward(const Tensor& input) const {
  return pad(input, padding.vec(), names_of(Kind).mode);
}
template <PadKind Kind, int Dims>
std::string Pad<Kind, Dims>::name() const {
  return concat(names_of(Kind).layer, Dims, "d");
}
template <PadKind Kind, int Dims>
std::string Pad<Kind, Dims>::extra_repr() const {
  return repr_tuple(padding);
}

template class ConstantPad<1>;
template class ConstantPad<2>;
template class ConstantPad<3>;
template class Pad<detail::PadKind::zero, 1>;
template class Pad<detail::PadKind::zero, 2>;
template class Pad<detail::PadKind::zero, 3>;
template class Pad<detail::PadKind::reflection, 1>;
template class Pad<detail::PadKind::reflection, 2>;
template class Pad<detail::PadKind::reflection, 3>;
template class Pad<detail::PadKind::replication, 1>;
template class Pad<detail::PadKind::replication, 2>;
template class Pad<detail::PadKind::replication, 3>;
template class Pad<detail::PadKind::circular, 1>;
template class Pad<detail::PadKind::circular, 2>;
template class Pad<detail::PadKind::circular, 3>;

}  // namespace tensora::nn
