// How an open group becomes a kernel.
#include <algorithm>

#include "tensora/jit/open_group.h"

namespace tensora::jit {
namespace {

using Kind = TileProgram::Step::Kind;

constexpr std::ptrdiff_t kMostResults = 12;
constexpr int64_t kSmall = 32768;
constexpr int64_t kShortRow = 256;
constexpr size_t kManySteps = 8;
constexpr int64_t kCachedBytes = int64_t{4} << 20;
// Drawing numbers takes the time of a pass over memory, which overlaps with it in the op's own
// kernel.
constexpr size_t kFewestWithRandom = 4;

}  // namespace

// The CPU's engine starts anew at every row of an array that is not one long run of elements. Where
// rows are short and the array is in cache, ops one by one are faster (measured with AVX-512).
std::string OpenGroup::loses() const {
  if (fuse_ == Fuse::everything || !device_.is_cpu() || space_.empty()) return {};
  const bool draws = std::any_of(steps_.begin(), steps_.end(),
                                 [](const Step& step) { return step.step.kind == Kind::random; });
  if (draws && steps_.size() < kFewestWithRandom)
    return "random ops with fewer than three others are faster op by op";
  const int64_t row = space_[space_.size() - 1];
  if (row >= kShortRow || space_.numel() * 4 >= kCachedBytes) return {};
  if (steps_.size() >= kManySteps && space_.numel() >= kSmall) return {};
  const Strides dense = contiguous_strides(space_);
  const auto is_run = [&](const ElementMap& map) {
    bool single = true, whole = true;
    for (int d = 0; d < space_.size(); ++d) {
      single &= map.strides[d] == 0;
      whole &= space_[d] == 1 || map.strides[d] == dense[d];
    }
    return single || whole;
  };
  bool runs = true;
  for (const Input& input : inputs_) runs &= is_run(input.map);
  for (const Step& step : steps_)
    runs &= step.again || step.step.kind == Kind::columns || is_run(step.map);
  return runs ? "" : concat("rows of ", row, " elements in cache are faster op by op");
}

PlannedOperand OpenGroup::planned(uint32_t operand, const ElementMap& map) const {
  PlannedOperand result{operand, space_, map.strides};
  for (int d = 0; d < space_.size(); ++d)
    if (map.strides[d] == 0) result.sizes[d] = 1;
  return result;
}

// What is overwritten within the group is never stored.
bool OpenGroup::is_result(const Step& step, const std::vector<bool>& is_stored) const {
  return !step.again && is_stored[static_cast<size_t>(step.map.memory)] &&
         definition(step.map.memory) == &step;
}

bool OpenGroup::has_too_many_results(const std::vector<bool>& is_stored) const {
  const auto counts = [&](const Step& step) { return is_result(step, is_stored); };
  return std::count_if(steps_.begin(), steps_.end(), counts) > kMostResults;
}

// Values of 16-bit floats that pointwise steps alone make and read.
std::vector<bool> OpenGroup::steps_to_widen(const std::vector<bool>& is_stored) const {
  const auto is_plain = [](const Step& step) {
    return step.step.kind == Kind::pointwise || step.step.kind == Kind::cast;
  };
  std::vector<bool> widened;
  for (const Step& step : steps_)
    widened.push_back(is_plain(step) && !is_result(step, is_stored) &&
                      (step.step.dtype == kBFloat16 || step.step.dtype == kFloat16));
  for (const Step& step : steps_)
    for (const std::optional<Ref>& ref : step.operands)
      if (ref && ref->is_step && !is_plain(step)) widened[static_cast<size_t>(ref->number)] = false;
  return widened;
}

PlannedKernel OpenGroup::finish(const std::vector<bool>& is_stored, bool wide) const {
  const std::vector<bool> widened =
      wide ? steps_to_widen(is_stored) : std::vector<bool>(steps_.size(), false);
  TileProgram program;
  program.kind = row_dims_ > 0 ? TileProgram::Kind::rows : TileProgram::Kind::walk;
  std::vector<PlannedOperand> inputs, results;
  std::vector<int> attrs;
  for (const Input& input : inputs_) {
    program.add(input.form);
    inputs.push_back(planned(input.operand, input.map));
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    TileProgram::Step made = step.step;
    if (widened[i]) made.dtype = kFloat32;
    for (const std::optional<Ref>& ref : step.operands)
      made.operands.push_back(!ref ? -1 : ref->number + (ref->is_step ? program.input_count() : 0));
    if (step.node >= 0) {
      const void* const given = tape_->nodes()[static_cast<size_t>(step.node)].attrs.get();
      if (made.op)
        made.attrs = AttrsCopy(*made.op, given);
      else
        made.number = *static_cast<const Scalar*>(given);
    }
    attrs.push_back(step.node);
    program.add(std::move(made));
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!is_result(steps_[i], is_stored)) continue;
    program.results.push_back(program.input_count() + static_cast<int>(i));
    results.push_back(planned(steps_[i].operand, steps_[i].map));
  }
  return {prepare(program, device_), space_,          row_dims_, std::move(inputs),
          std::move(results),        std::move(attrs)};
}

}  // namespace tensora::jit
