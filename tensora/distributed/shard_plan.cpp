#include "tensora/distributed/shard_plan.h"

#include <algorithm>
#include <map>

namespace tensora::distributed {
namespace {

constexpr size_t kMostPlans = 4096;

thread_local constinit int64_t plans_made = 0;

void mix(uint64_t& hash, uint64_t word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdu;  // MurmurHash3's multiplier
  hash ^= hash >> 32;
}
void mix(uint64_t& hash, const Shape& shape) {
  for (const int64_t value : shape) mix(hash, static_cast<uint64_t>(value));
}

uint64_t hash_of(const OperandLayout& layout) {
  uint64_t hash = static_cast<uint64_t>(layout.dtype) + 256 * layout.placements.size();
  mix(hash, layout.sizes);
  mix(hash, layout.strides);
  mix(hash, static_cast<uint64_t>(layout.offset));
  for (const Placement& placement : layout.placements)
    mix(hash, 16 * static_cast<uint64_t>(placement.dim) + static_cast<uint64_t>(placement.kind));
  return hash;
}

bool is_replicated(const Placements& placements) {
  return std::ranges::all_of(placements, &Placement::is_replicate);
}

// Whether the op gets this input, or its part, as it is: it is placed as the call needs it, the
// gradient is placed as the tensor is, and the memory lies as one process's would.
bool is_ready(const OperandLayout& layout, const ShardChoice& choice, size_t i, bool records) {
  if (!layout.defined) return true;
  const bool whole = layout.placements.empty();
  if (whole ? !is_replicated(choice.inputs[i]) : layout.placements != choice.inputs[i])
    return false;
  for (size_t m = 0; records && m < choice.inputs[i].size(); ++m)
    if (choice.inputs[i][m].is_replicate() && !choice.gradients[i][m].is_replicate()) return false;
  if (whole) return true;
  if (layout.part_sizes == layout.sizes) return layout.part_strides == layout.strides;
  return !is_contiguous(layout.sizes, layout.strides) ||
         is_contiguous(layout.part_sizes, layout.part_strides);
}

ShardPlan make_plan(const ShardPlanKey& key, const Call& call, const DeviceMesh& mesh) {
  if (!has_shard_rule(call.op)) {
    const bool defined = call.op.has_reference && call.op.gradient == Gradient::by_reference;
    return {.way = defined ? ShardPlan::Way::by_definition : ShardPlan::Way::gathered};
  }
  int64_t ranks = 1;
  std::vector<int> sizes;
  for (int m = 0; m < mesh.dims(); ++m) {
    sizes.push_back(mesh.size(m));
    ranks *= mesh.size(m);
  }
  Infer infer(call.op.name, call.inputs, device_of(call));
  call.op.infer(call.op, infer, call.attrs);
  const WholeCall whole{call.op, call.attrs, call.inputs, infer.outputs, ranks};
  const auto rule = shard_rule(whole);
  if (!rule) return {};
  if (rule->by_definition) return {.way = ShardPlan::Way::by_definition};
  std::vector<Placements> placed;
  for (const OperandLayout* const layout : key.layouts)
    placed.push_back(layout->placements.empty() ? Placements(static_cast<size_t>(mesh.dims()))
                                                : layout->placements);
  ShardPlan plan{.way = ShardPlan::Way::divided,
                 .outputs = infer.outputs,
                 .choice = choose_shards(*rule, whole, sizes, placed),
                 .reshapes = call.op.name == "view",
                 .last_layouts = std::vector<const OperandLayout*>(infer.outputs.size())};
  for (size_t i = 0; i < key.layouts.size(); ++i)
    plan.as_is.push_back(is_ready(*key.layouts[i], plan.choice, i, key.records));
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    plan.part_sizes.push_back(local_sizes(plan.outputs[i].sizes, mesh, plan.choice.outputs[i]));
    plan.is_whole.push_back(is_replicated(plan.choice.outputs[i]));
  }
  if (!rule->sizes_attr.empty() && !plan.reshapes)
    plan.attrs =
        std::make_unique<AttrsWithSizes>(call.op, call.attrs, rule->sizes_attr, plan.part_sizes[0]);
  return plan;
}

}  // namespace

uint64_t ShardPlanKey::hash() const {
  uint64_t hash = reinterpret_cast<uintptr_t>(op) + static_cast<uint64_t>(records);
  for (const OperandLayout* const layout : layouts) mix(hash, reinterpret_cast<uintptr_t>(layout));
  for (const uint64_t word : words) mix(hash, word);
  return hash;
}

bool ShardPlanKey::operator==(const ShardPlanKey& other) const {
  return op == other.op && records == other.records && default_dtype == other.default_dtype &&
         std::ranges::equal(layouts, other.layouts) && std::ranges::equal(words, other.words);
}

ShardPlans& ShardPlans::of(const DeviceMesh& mesh) {
  thread_local std::map<std::vector<int>, ShardPlans> plans;
  std::vector<int> place;
  for (int m = 0; m < mesh.dims(); ++m) {
    place.push_back(mesh.size(m));
    place.push_back(mesh.coordinate(m));
  }
  return plans[place];
}

ShardPlans::Use::Use(ShardPlans& plans) : plans_(plans) {
  const bool few = plans.plans_.size() <= kMostPlans && plans.layouts_.size() <= 4 * kMostPlans;
  if (plans.users_++ > 0 || few) return;
  plans.plans_.clear();
  plans.layouts_.clear();
}

const OperandLayout* ShardPlans::intern(OperandLayout layout) {
  const uint64_t hash = hash_of(layout);
  const auto [begin, end] = layouts_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (*at->second == layout) return at->second.get();
  return layouts_.emplace(hash, std::make_unique<const OperandLayout>(std::move(layout)))
      ->second.get();
}

const ShardPlan& ShardPlans::plan(ShardPlanKey& key, const Call& call, const DeviceMesh& mesh) {
  const uint64_t hash = key.hash();
  const auto [begin, end] = plans_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (at->second.key == key) return at->second.plan;
  ++plans_made;
  ShardPlan made = make_plan(key, call, mesh);
  return plans_.emplace(hash, Entry{std::move(key), std::move(made)})->second.plan;
}

int64_t ShardPlans::made() { return plans_made; }

}  // namespace tensora::distributed
