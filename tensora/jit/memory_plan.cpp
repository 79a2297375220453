#include <algorithm>

#include "tensora/jit/plan.h"

// Note [Peak of memory]
// A group runs where it is closed, so what its first nodes read lives longer than in eager
// execution, and all of its results are there at once. Therefore the memory that a plan takes is
// counted before it runs, beside what the same nodes take one by one. Where a plan takes more, it
// is made again, with all groups closed before the nodes that run there, and then with the groups
// that run there taken apart; then with groups that are closed sooner everywhere, and without
// merging equal nodes. In the end every node runs by itself.

namespace tensora::jit {
namespace {

/// Counts the bytes of the memories that a tape makes, while its nodes run.
class Count {
 public:
  explicit Count(const Tape& tape) : tape_(tape), bytes_(tape.memories().size(), 0) {}

  void use(int memory) {
    if (memory < 0) return;
    const Memory& entry = tape_.memories()[static_cast<size_t>(memory)];
    int64_t& bytes = bytes_[static_cast<size_t>(memory)];
    if (bytes != 0 || !entry.made_here) return;
    bytes = static_cast<int64_t>(entry.storage->bytes());
    now_ += bytes;
  }
  void use(const TapeNode& node) {
    for (uint32_t i = 0; i < node.inputs + node.outputs; ++i)
      use(tape_.operand(node.first + i).memory);
  }
  void take(int to, int from) {
    bytes_[static_cast<size_t>(to)] = std::exchange(bytes_[static_cast<size_t>(from)], kShared);
  }
  void release(int memory) {
    if (!tape_.is_dead(memory)) return;
    const int64_t bytes = std::exchange(bytes_[static_cast<size_t>(memory)], 0);
    if (bytes != kShared) now_ -= bytes;
  }
  int64_t now() const { return now_; }

 private:
  static constexpr int64_t kShared = -1;  // counted with the memory that took it

  const Tape& tape_;
  std::vector<int64_t> bytes_;  // of each memory that is there
  int64_t now_ = 0;
};

}  // namespace

int64_t peak_op_by_op(const Tape& tape) {
  std::vector<size_t> last_use(tape.memories().size(), 0);
  const auto each_memory = [&](size_t node, auto&& body) {
    const TapeNode& now = tape.nodes()[node];
    for (uint32_t i = 0; i < now.inputs + now.outputs; ++i)
      if (const int memory = tape.operand(now.first + i).memory; memory >= 0) body(memory);
  };
  for (size_t node = 0; node < tape.size(); ++node)
    each_memory(node, [&](int memory) { last_use[static_cast<size_t>(memory)] = node; });
  Count count(tape);
  int64_t peak = 0;
  for (size_t node = 0; node < tape.size(); ++node) {
    count.use(tape.nodes()[node]);
    peak = std::max(peak, count.now());
    each_memory(node, [&](int memory) {
      if (last_use[static_cast<size_t>(memory)] == node) count.release(memory);
    });
  }
  return peak;
}

MemoryPeak peak_of(const Tape& tape, const Plan& plan, int64_t most) {
  Count count(tape);
  MemoryPeak peak;
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    for (const auto& [to, from] : launch.reuses) count.take(to, from);
    if (launch.kernel) {
      const auto use = [&](const PlannedKernel& kernel) {
        for (const auto* operands : {&kernel.inputs, &kernel.results})
          for (const PlannedOperand& operand : *operands)
            count.use(tape.operand(operand.operand).memory);
      };
      use(*launch.kernel);
      std::for_each(launch.list.begin(), launch.list.end(), use);
    } else {
      count.use(tape.nodes()[launch.nodes.empty() ? launch.again[0] : launch.nodes[0]]);
    }
    peak.bytes = std::max(peak.bytes, count.now());
    if (count.now() > most) peak.above.push_back(i);
    for (int memory : launch.releases) count.release(memory);
    for (int memory : launch.drops) count.release(memory);
  }
  return peak;
}

}  // namespace tensora::jit
