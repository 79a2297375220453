#include <algorithm>

#include "tensora/jit/group_nodes.h"

// Note [Memory budgets]
// A value that a plan makes early and needs again late, as the gradient needs what the forward pass
// made, may be given up in between and computed again by its own op. That costs time, so it is only
// done for a user who asks for less memory: while the peak is above the budget, the cheapest value
// that only waits there is given up, if what it is made from is there when it is needed again.

namespace tensora::jit {
namespace {

constexpr int kMostChanges = 1024;
constexpr int64_t kSmallest = 4096;  // bytes: smaller values are not worth an op
// How much more than its bytes an op costs that is not pointwise, a row op or a reduction.
constexpr int64_t kHeavy = 16;

class Budget {
 public:
  Budget(const Tape& tape, Plan& plan)
      : tape_(tape), plan_(plan), writers_(tape.memories().size()) {
    for (uint32_t node = 0; node < tape.size(); ++node)
      if (!plan.rewrite.left_out[node])
        for (const Operand& output : tape.outputs(tape.nodes()[node]))
          writers_[at(output.memory)].push_back(node);
  }

  bool run(int64_t budget) {
    bool changed = false;
    for (int change = 0; change < kMostChanges; ++change) {
      const size_t peak = peak_launch();
      if (most_ <= budget) break;
      find_uses();
      if (!give_up_one(peak)) break;
      changed = true;
    }
    if (changed) finish_plan(tape_, plan_);  // the tape must hold what is read again
    return changed;
  }

 private:
  static constexpr int kNone = -1;
  static size_t at(int memory) { return static_cast<size_t>(memory); }

  size_t peak_launch() {
    const MemoryPeak all = peak_of(tape_, plan_);
    most_ = all.bytes;
    const MemoryPeak top = peak_of(tape_, plan_, all.bytes - 1);
    return top.above.empty() ? 0 : top.above.front();
  }

  /// What launches do with a memory.
  struct Uses {
    std::vector<size_t> launches = {};  // in order
    std::vector<size_t> writes = {};    // those that write it
  };

  void find_uses() {
    uses_.assign(tape_.memories().size(), {});
    const auto use = [&](int memory, size_t launch, bool writes) {
      if (memory < 0) return;
      Uses& uses = uses_[at(memory)];
      if (uses.launches.empty() || uses.launches.back() != launch) uses.launches.push_back(launch);
      if (writes) uses.writes.push_back(launch);
    };
    for (size_t l = 0; l < plan_.launches.size(); ++l) {
      const Launch& launch = plan_.launches[l];
      const auto use_kernel = [&](const PlannedKernel& kernel) {
        for (const PlannedOperand& input : kernel.inputs)
          use(tape_.operand(input.operand).memory, l, false);
        for (const PlannedOperand& result : kernel.results)
          use(tape_.operand(result.operand).memory, l, true);
      };
      if (launch.kernel) {
        use_kernel(*launch.kernel);
        std::for_each(launch.list.begin(), launch.list.end(), use_kernel);
        continue;
      }
      const TapeNode& node =
          tape_.nodes()[launch.nodes.empty() ? launch.again[0] : launch.nodes[0]];
      for (const Operand& operand : tape_.inputs(node)) use(operand.memory, l, false);
      for (const Operand& operand : tape_.outputs(node)) use(operand.memory, l, true);
    }
  }

  /// A value that may be given up.
  struct Choice {
    int memory = kNone;
    uint32_t node = 0;
    size_t before = 0, after = 0;  // the launches that use it around the peak
    int64_t cost = 0, bytes = 0;
  };

  bool give_up_one(size_t peak) {
    Choice best;
    for (size_t m = 0; m < tape_.memories().size(); ++m) {
      const Choice choice = choice_of(static_cast<int>(m), peak);
      if (choice.memory == kNone) continue;
      // The least cost per byte; in double, because products of bytes exceed 2^63 above 3 GB.
      const auto per_byte = [](const Choice& one) {
        return static_cast<double>(one.cost) / static_cast<double>(one.bytes);
      };
      if (best.memory == kNone || per_byte(choice) < per_byte(best)) best = choice;
    }
    if (best.memory == kNone) return false;
    plan_.launches[best.before].drops.push_back(best.memory);
    Launch again{.nodes = {}, .again = {best.node}, .kernel = {}, .releases = {}};
    for (const auto& operands :
         {tape_.inputs(tape_.nodes()[best.node]), tape_.outputs(tape_.nodes()[best.node])})
      for (const Operand& operand : operands)
        if (operand.memory >= 0) again.bytes += static_cast<int64_t>(operand.view.bytes());
    plan_.launches.insert(plan_.launches.begin() + static_cast<std::ptrdiff_t>(best.after),
                          std::move(again));
    return true;
  }

  Choice choice_of(int memory, size_t peak) const {
    const Memory& entry = tape_.memories()[at(memory)];
    const auto bytes = static_cast<int64_t>(entry.storage->bytes());
    const Uses& uses = uses_[at(memory)];
    if (bytes < kSmallest || !tape_.is_dead(memory) || writers_[at(memory)].size() != 1) return {};
    const uint32_t node = writers_[at(memory)][0];
    const auto next = std::upper_bound(uses.launches.begin(), uses.launches.end(), peak);
    if (next == uses.launches.begin() || next == uses.launches.end() || *(next - 1) == peak)
      return {};
    Choice choice{memory, node, *(next - 1), *next, 0, bytes};
    // Something that is there because it is being made again.
    if (std::find(uses.writes.begin(), uses.writes.end(), choice.after) != uses.writes.end())
      return {};
    return can_run_again(choice) ? choice : Choice{};
  }

  // Whether the op finds its operands as they were, and how much it reads and writes.
  bool can_run_again(Choice& choice) const {
    const TapeNode& node = tape_.nodes()[choice.node];
    if (node.outputs != 1) return false;
    const OpForm form = form_in_group(tape_, node);
    choice.cost = choice.bytes;
    for (const Operand& operand : operands_read(tape_, node, form)) {
      if (operand.memory < 0) continue;
      if (operand.memory == choice.memory) return false;
      for (uint32_t writer : writers_[at(operand.memory)])
        if (writer > choice.node && runs_before(writer, choice.after)) return false;
      if (!is_there(operand.memory, choice.after)) return false;
      choice.cost += static_cast<int64_t>(operand.view.bytes());
    }
    if (form.kind == OpForm::Kind::none) choice.cost *= kHeavy;
    return true;
  }

  // Whether a memory has its contents before a launch, without being kept any longer for that.
  bool is_there(int memory, size_t launch) const {
    if (!tape_.is_dead(memory)) return true;
    const Uses& uses = uses_[at(memory)];
    if (uses.writes.empty() || uses.launches.back() < launch) return false;
    // It may be given up, and not be back yet.
    bool there = false;
    for (size_t l = 0; l < launch; ++l) {
      const Launch& now = plan_.launches[l];
      there |= std::find(uses.writes.begin(), uses.writes.end(), l) != uses.writes.end();
      if (std::find(now.drops.begin(), now.drops.end(), memory) != now.drops.end()) there = false;
    }
    return there;
  }

  bool runs_before(uint32_t node, size_t launch) const {
    for (size_t l = 0; l < launch; ++l) {
      const std::vector<uint32_t>& nodes = plan_.launches[l].nodes;
      if (std::binary_search(nodes.begin(), nodes.end(), node)) return true;
    }
    return false;
  }

  const Tape& tape_;
  Plan& plan_;
  int64_t most_ = 0;
  std::vector<std::vector<uint32_t>> writers_;  // per memory: nodes
  std::vector<Uses> uses_;                      // per memory
};

}  // namespace

bool keep_budget(const Tape& tape, Plan& plan, int64_t budget) {
  return Budget(tape, plan).run(budget);
}

}  // namespace tensora::jit
