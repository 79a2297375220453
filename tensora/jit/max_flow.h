#pragma once

// Internal header: the cheapest cut of a small network.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensora::jit {

/// A network of nodes 0, 1, … with edges that carry so much at most.
class FlowNetwork {
 public:
  static constexpr int64_t kUnlimited = int64_t{1} << 60;

  int add_node() {
    edges_.emplace_back();
    return static_cast<int>(edges_.size()) - 1;
  }
  void add_edge(int from, int to, int64_t capacity);
  /// The most that flows from `source` to `sink`, which is the least that all edges of a cut carry.
  int64_t flow(int source, int sink);
  /// After `flow`: the nodes on the source's side of the cut that lies nearest to the source.
  std::vector<bool> source_side(int source) const;

 private:
  struct Edge {
    int to;
    int64_t left;  // what the edge can still carry
    size_t back;   // the reverse edge, among those of `to`
  };
  bool find_levels(int source, int sink);
  int64_t push(int node, int sink, int64_t most);

  std::vector<std::vector<Edge>> edges_;
  std::vector<int> level_;
  std::vector<size_t> next_;  // per node: the first edge that may still carry something
};

}  // namespace tensora::jit
