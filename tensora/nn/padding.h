#pragma once

#include "tensora/nn/layer.h"

// Layers that extend the last `Dims` dims. The padding is one number for all sides, or a number
// before and one after each dim, the last dim first: {left, right, top, bottom}. Negative numbers
// cut off. Use them as ZeroPad2d, ReflectionPad1d, ….

namespace tensora::nn {

/// With a number.
template <int Dims>
class ConstantPad : public Layer<ConstantPad<Dims>> {
 public:
  ConstantPad(const Shape& padding, double value);
  Tensor forward(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape padding;
  double value;
};

namespace detail {
enum class PadKind { zero, reflection, replication, circular };
}

/// With zeros, with the mirrored inside, with the outermost elements, or with those of the other
/// side.
template <detail::PadKind Kind, int Dims>
class Pad : public Layer<Pad<Kind, Dims>> {
 public:
  explicit Pad(const Shape& padding);
  Tensor forward(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape padding;
};

using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;
using ZeroPad1d = Pad<detail::PadKind::zero, 1>;
using ZeroPad2d = Pad<detail::PadKind::zero, 2>;
using ZeroPad3d = Pad<detail::PadKind::zero, 3>;
using ReflectionPad1d = Pad<detail::PadKind::reflection, 1>;
using ReflectionPad2d = Pad<detail::PadKind::reflection, 2>;
using ReflectionPad3d = Pad<detail::PadKind::reflection, 3>;
using ReplicationPad1d = Pad<detail::PadKind::replication, 1>;
using ReplicationPad2d = Pad<detail::PadKind::replication, 2>;
using ReplicationPad3d = Pad<detail::PadKind::replication, 3>;
using CircularPad1d = Pad<detail::PadKind::circular, 1>;
using CircularPad2d = Pad<detail::PadKind::circular, 2>;
using CircularPad3d = Pad<detail::PadKind::circular, 3>;

extern template class ConstantPad<1>;
extern template class ConstantPad<2>;
extern template class ConstantPad<3>;
extern template class Pad<detail::PadKind::zero, 1>;
extern template class Pad<detail::PadKind::zero, 2>;
extern template class Pad<detail::PadKind::zero, 3>;
extern template class Pad<detail::PadKind::reflection, 1>;
extern template class Pad<detail::PadKind::reflection, 2>;
extern template class Pad<detail::PadKind::reflection, 3>;
extern template class Pad<detail::PadKind::replication, 1>;
extern template class Pad<detail::PadKind::replication, 2>;
extern template class Pad<detail::PadKind::replication, 3>;
extern template class Pad<detail::PadKind::circular, 1>;
extern template class Pad<detail::PadKind::circular, 2>;
extern template class Pad<detail::PadKind::circular, 3>;

}  // namespace tensora::nn
