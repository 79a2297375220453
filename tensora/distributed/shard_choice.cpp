#include "tensora/distributed/shard_choice.h"

#include <algorithm>
#include <cstddef>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"

namespace tensora::distributed {
namespace {

constexpr int kNothing = kWhole;     // all ranks do the same
constexpr int kPartialThrough = -2;  // the op is linear: partial inputs, partial outputs

int dim_with(const Factors& factors, int factor) {
  for (size_t d = 0; d < factors.size(); ++d)
    if (factors[d] == factor) return static_cast<int>(d);
  return -1;
}

/// The choice for one dim of the mesh.
class OneDim {
 public:
  OneDim(const ShardRule& rule, const WholeCall& call, int ranks)
      : rule_(rule), call_(call), ranks_(ranks) {
    records_ = is_grad_enabled() && std::ranges::any_of(call.inputs, [](const Arg& input) {
                 return input->defined() && input->requires_grad();
               });
  }

  int best(const std::vector<Placement>& now) const {
    int best = kNothing;
    int64_t least = cost(kNothing, now);
    const auto consider = [&](int factor) {
      const int64_t bytes = cost(factor, now);
      if (bytes < least) best = factor, least = bytes;
    };
    if (rule_.linear && std::ranges::any_of(now, &Placement::is_partial) && !has_numbers())
      consider(kPartialThrough);
    for (const Factors& factors : rule_.inputs)
      for (const int factor : factors)
        if (factor != kWhole && can_divide(factor)) consider(factor);
    return best;
  }

  Placement input(size_t i, int factor) const {
    if (factor == kPartialThrough) return Placement::partial();
    if (factor == kNothing) return Placement::replicate();
    if (const int d = dim_with(rule_.inputs[i], factor); d >= 0) return Placement::shard(d);
    const bool added = i < rule_.added.size() && rule_.added[i];
    return added && is_summed(factor) ? Placement::partial() : Placement::replicate();
  }

  // Each rank computes with other parts, so a whole input has the sum of their gradients.
  Placement gradient(const Placement& input, int factor) const {
    if (input.is_shard()) return input;
    const bool divided = factor != kNothing && factor != kPartialThrough;
    return divided && input.is_replicate() ? Placement::partial() : Placement::replicate();
  }

  Placement output(size_t i, int factor) const {
    if (factor == kNothing) return Placement::replicate();
    if (factor == kPartialThrough) return Placement::partial();
    if (const int d = dim_with(rule_.outputs[i], factor); d >= 0) return Placement::shard(d);
    return Placement::partial(rule_.combined_by.value());
  }

 private:
  bool is_summed(int factor) const {
    return std::ranges::any_of(
        rule_.outputs, [&](const Factors& factors) { return dim_with(factors, factor) < 0; });
  }

  bool can_divide(int factor) const {
    if (rule_.needs_elements && size_of(factor) < call_.ranks) return false;
    if (!is_summed(factor)) return true;
    return rule_.combined_by && (!records_ || *rule_.combined_by == ReduceOp::sum);
  }

  int64_t size_of(int factor) const {
    for (size_t i = 0; i < rule_.inputs.size(); ++i)
      if (const int d = dim_with(rule_.inputs[i], factor); d >= 0)
        return call_.inputs[i]->sizes()[d];
    return 0;
  }

  // A number takes part in type promotion otherwise than a tensor of zeros would.
  bool has_numbers() const {
    return std::ranges::any_of(call_.inputs, [](const Arg& input) {
      return input->defined() && input->impl().wrapped_number;
    });
  }

  static int64_t bytes(const Shape& sizes, DType dtype) { return bytes_of(dtype, sizes.numel()); }

  int64_t cost(int factor, const std::vector<Placement>& now) const {
    int64_t total = 0;
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      const Tensor& tensor = *call_.inputs[i];
      if (!tensor.defined()) continue;
      const Placement from = now[i], to = input(i, factor);
      const int64_t size = bytes(tensor.sizes(), tensor.dtype());
      if (from == to || from.is_replicate()) continue;
      if (from.is_partial())
        total += to.is_shard() ? size : 2 * size;
      else
        total += to.is_shard() ? size / ranks_ : size;
    }
    for (size_t i = 0; i < call_.outputs.size(); ++i)
      if (output(i, factor).is_partial())
        total += bytes(call_.outputs[i].sizes, call_.outputs[i].dtype);
    return total;
  }

  const ShardRule& rule_;
  const WholeCall& call_;
  const int ranks_;
  bool records_ = false;
};

}  // namespace

ShardChoice choose_shards(const ShardRule& rule, const WholeCall& call, std::span<const int> mesh,
                          const std::vector<Placements>& placed) {
  ShardChoice choice;
  choice.inputs.resize(call.inputs.size());
  choice.gradients.resize(call.inputs.size());
  choice.outputs.resize(call.outputs.size());
  for (size_t m = 0; m < mesh.size(); ++m) {
    const OneDim dim(rule, call, mesh[m]);
    std::vector<Placement> now;
    for (const Placements& placements : placed) now.push_back(placements[m]);
    const int factor = dim.best(now);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      choice.inputs[i].push_back(dim.input(i, factor));
      choice.gradients[i].push_back(dim.gradient(choice.inputs[i].back(), factor));
    }
    for (size_t i = 0; i < call.outputs.size(); ++i)
      choice.outputs[i].push_back(dim.output(i, factor));
  }
  return choice;
}

AttrsWithSizes::AttrsWithSizes(const OpBase& op, const void* attrs, std::string_view name,
                               const Shape& sizes)
    : op_(op), memory_(op.attrs_size / sizeof(std::max_align_t) + 1) {
  std::vector<std::pair<std::string, AttrValue>> values;
  for (const auto& [known, value] : op.list_attrs(attrs))
    values.emplace_back(known, known == name ? to_attr_value(sizes) : value);
  op.with_attrs(op, values, [&](const void* changed) { op.copy_attrs(memory_.data(), changed); });
}
AttrsWithSizes::~AttrsWithSizes() { op_.destroy_attrs(memory_.data()); }

}  // namespace tensora::distributed
