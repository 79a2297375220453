#include <algorithm>
#include <set>

#include "tensora/jit/group_nodes.h"

// Note [Lists of kernels]
// A step of an optimizer that is written by hand is one small kernel per parameter. Small kernels
// that do the same to different tensors become one launch, which shares what a launch costs, and
// the threads. A list runs where its last kernel would have: the others wait, so no launch in
// between may write what they read, or read or write what they write.

namespace tensora::jit {
namespace {

constexpr int64_t kSmall = int64_t{1} << 15;  // elements
constexpr size_t kLongest = 256;              // kernels in a list
constexpr size_t kMostOpen = 8;               // lists that may still grow

class Lists {
 public:
  Lists(const Tape& tape, Plan& plan) : tape_(tape), plan_(plan) {}

  bool run() {
    for (size_t launch = 0; launch < plan_.launches.size(); ++launch) {
      close_conflicting(launch);
      if (is_small(plan_.launches[launch])) add(launch);
    }
    for (List& list : open_) close(list);
    if (!changed_) return false;
    std::erase_if(plan_.launches, [](const Launch& launch) { return launch.nodes.empty(); });
    finish_plan(tape_, plan_);
    return true;
  }

 private:
  struct List {
    std::vector<size_t> members;  // launches
    std::set<int> reads, writes;  // memories
  };

  static bool is_small(const Launch& launch) {
    return launch.kernel && launch.kernel->row_dims == 0 && launch.kernel->sizes.numel() <= kSmall;
  }

  template <class Body>  // is given every memory that a launch uses, and whether it writes there
  void each_memory(const Launch& launch, Body&& body) const {
    for (const std::vector<uint32_t>* nodes : {&launch.nodes, &launch.again})
      for (uint32_t index : *nodes) {
        const TapeNode& node = tape_.nodes()[index];
        for (const Operand& operand : tape_.inputs(node)) body(operand.memory, false);
        for (const Operand& operand : tape_.outputs(node)) body(operand.memory, true);
      }
  }

  // Lists of which no kernel may wait for this launch.
  void close_conflicting(size_t launch) {
    std::erase_if(open_, [&](List& list) {
      bool conflicts = false;
      each_memory(plan_.launches[launch], [&](int memory, bool writes) {
        conflicts |= list.writes.contains(memory) || (writes && list.reads.contains(memory));
      });
      if (conflicts) close(list);
      return conflicts;
    });
  }

  void add(size_t launch) {
    const PreparedTile& tile = plan_.launches[launch].kernel->tile;
    auto list = std::find_if(open_.begin(), open_.end(), [&](const List& other) {
      return other.members.size() < kLongest &&
             plan_.launches[other.members[0]].kernel->tile.shares_kernel(tile);
    });
    if (list == open_.end()) {
      if (open_.size() == kMostOpen) {
        close(open_.front());
        open_.erase(open_.begin());
      }
      open_.emplace_back();
      list = open_.end() - 1;
    }
    list->members.push_back(launch);
    each_memory(plan_.launches[launch], [&](int memory, bool writes) {
      (writes ? list->writes : list->reads).insert(memory);
    });
  }

  void close(List& list) {
    if (list.members.size() < 2) return;
    changed_ = true;
    Launch& last = plan_.launches[list.members.back()];
    list.members.pop_back();
    for (size_t member : list.members) {
      Launch& launch = plan_.launches[member];
      last.nodes.insert(last.nodes.end(), launch.nodes.begin(), launch.nodes.end());
      last.again.insert(last.again.end(), launch.again.begin(), launch.again.end());
      last.list.push_back(std::move(*launch.kernel));
      last.bytes += launch.bytes;
      last.eager_bytes += launch.eager_bytes;
      launch.nodes.clear();
    }
    std::sort(last.nodes.begin(), last.nodes.end());
  }

  const Tape& tape_;
  Plan& plan_;
  std::vector<List> open_;
  bool changed_ = false;
};

}  // namespace

bool list_kernels(const Tape& tape, Plan& plan) { return Lists(tape, plan).run(); }

}  // namespace tensora::jit
