#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>

#include "tensora/base/fork.h"
#include "tensora/base/settings.h"
#include "tensora/core/backend.h"
#include "tensora/jit/plan.h"
#include "tensora/jit/plan_key.h"
#include "tensora/jit/stats.h"

namespace tensora::jit {
namespace {

using Key = PlanKey;

constexpr size_t kMostPlans = 512;

// Everything that a plan depends on: ops, layouts, which operands share a storage, which storages
// nobody else holds. Numbers, addresses and random streams are not part of it; they are taken from
// the tape that runs. PreparedTape compares the same.
Key key_of(const Tape& tape, PlanOptions options) {
  Key key;
  key.reserve(tape.size() * 32);
  key.push_back(static_cast<uint64_t>(options.fuse) << 1 | options.wide);
  key.push_back(static_cast<uint64_t>(options.memory_budget));
  for (const TapeNode& node : tape.nodes()) {
    key.push_back(reinterpret_cast<uintptr_t>(node.op));
    key.push_back(uint64_t{node.inputs} << 32 | node.outputs);
    key.push_back(static_cast<uint64_t>(node.device.type) << 32 |
                  static_cast<uint64_t>(static_cast<uint32_t>(node.device.index)) << 8 |
                  static_cast<uint64_t>(node.compute_dtype));
    for (uint32_t i = 0; i < node.inputs + node.outputs; ++i) {
      const Operand& operand = tape.operand(node.first + i);
      key.push_back(static_cast<uint64_t>(operand.memory));
      if (operand.memory < 0) continue;
      const View& view = operand.view;
      key.push_back(static_cast<uint64_t>(operand.offset_bytes));
      key.push_back(static_cast<uint64_t>(view.dim()) << 32 |
                    static_cast<uint64_t>(view.dtype) << 1 | view.device.is_cpu());
      for (int64_t size : view.sizes) key.push_back(static_cast<uint64_t>(size));
      for (int64_t stride : view.strides) key.push_back(static_cast<uint64_t>(stride));
    }
    if (plans_read_attrs(*node.op, node.inputs))
      add_attrs(key, node, tape.operand(node.first), node.attrs.get());
  }
  for (size_t m = 0; m < tape.memories().size(); ++m)
    key.push_back(tape.is_dead(static_cast<int>(m)));
  return key;
}

struct Hash {
  size_t operator()(const Key* key) const {
    // Two chains of products, neither of which waits for the other.
    constexpr uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;
    uint64_t even = key->size(), odd = 1;
    const uint64_t *word = key->data(), *const end = word + key->size() / 2 * 2;
    for (; word != end; word += 2) {
      even = (even ^ word[0]) * kFactor + (even >> 29);
      odd = (odd ^ word[1]) * kFactor + (odd >> 29);
    }
    if (key->size() % 2) even = (even ^ *word) * kFactor + (even >> 29);
    return (even ^ odd >> 32) * kFactor + odd;
  }
};
struct Equal {
  bool operator()(const Key* a, const Key* b) const { return *a == *b; }
};

/// The plans of this process, the least recently used of which are dropped.
class Plans {
 public:
  static Plans& instance() {
    static constinit MadeOnce<Plans> plans;
    return plans.get();
  }
  Plans() {
    allocator(DeviceType::cpu);  // whose locks are taken while this one is held
    hold_over_fork(mutex_);
  }
  std::shared_ptr<const Plan> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = index_.find(&key);
    if (found == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().plan;
  }
  void add(Key key, std::shared_ptr<const Plan> plan) {
    const std::lock_guard lock(mutex_);
    if (index_.contains(&key)) return;
    entries_.push_front({std::move(key), std::move(plan)});
    index_[&entries_.front().key] = entries_.begin();
    if (entries_.size() <= kMostPlans) return;
    index_.erase(&entries_.back().key);
    entries_.pop_back();
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Plan> plan;
  };
  Mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<const Key*, std::list<Entry>::iterator, Hash, Equal> index_;
};

}  // namespace

// Reductions and row ops have their dims among the attributes; other ops run by themselves.
void add_attrs(PlanKey& key, const TapeNode& node, const Operand& first, const void* attrs) {
  const OpForm form = first.memory < 0 ? OpForm{} : form_of(*node.op, attrs, first.view.sizes);
  key.push_back(static_cast<uint64_t>(form.kind));
  // A number is a parameter of its kernel, and other ops run by themselves.
  if (form.kind == OpForm::Kind::none || form.kind == OpForm::Kind::number) return;
  for (uint64_t word : node.op->attr_words(attrs)) key.push_back(word);
}

bool serves_attrs(const TapeNode& node, const Operand& first, const void* a, const void* b) {
  if (!plans_read_attrs(*node.op, node.inputs) || attrs_equal(*node.op, a, b)) return true;
  PlanKey ours, theirs;
  add_attrs(ours, node, first, a);
  add_attrs(theirs, node, first, b);
  return ours == theirs;
}

bool storages_overlap(const Tape& tape) {
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
  for (const Memory& memory : tape.memories()) {
    const auto first = reinterpret_cast<uintptr_t>(memory.storage->data());
    if (first != 0 && memory.storage->bytes() != 0)
      ranges.emplace_back(first, first + memory.storage->bytes());
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

FoundPlan find_plan(Tape& tape, PlanOptions options) {
  const bool overlap = storages_overlap(tape);
  if (tape.size() == 1 || overlap)
    return {std::make_shared<const Plan>(make_plain_plan(tape)), false, !overlap};
  Key key = key_of(tape, options);
  std::shared_ptr<const Plan> plan = Plans::instance().find(key);
  // Attributes are not part of the key; where some must be equal, and are not, nothing is merged.
  const bool merges = !plan || merges_hold(tape, plan->rewrite);
  if (!merges) {
    key.push_back(0);
    plan = Plans::instance().find(key);
  }
  if (plan) {
    count_plan_use(counts_of(*plan));
    for (const auto& [from, to] : plan->rewrite.merges) tape.merge(from, to);
    return {plan, false, true};
  }
  const std::string recorded = is_dumped() ? to_string(tape) : std::string();
  plan = std::make_shared<const Plan>(make_plan(tape, options, merges));
  if (is_dumped()) dump(*plan, tape, recorded);
  Stats counts = counts_of(*plan);
  counts.plans = 1;
  count_plan_use(counts);
  Plans::instance().add(std::move(key), plan);
  return {plan, true, false};
}

}  // namespace tensora::jit
