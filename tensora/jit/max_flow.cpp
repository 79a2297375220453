#include "tensora/jit/max_flow.h"

#include <algorithm>

namespace tensora::jit {

void FlowNetwork::add_edge(int from, int to, int64_t capacity) {
  std::vector<Edge>&out = edges_[static_cast<size_t>(from)], &in = edges_[static_cast<size_t>(to)];
  out.push_back({to, capacity, in.size()});
  in.push_back({from, 0, out.size() - 1});
}

// Dinic's algorithm: paths of the fewest edges first, all of one length at a time.
int64_t FlowNetwork::flow(int source, int sink) {
  int64_t total = 0;
  while (find_levels(source, sink)) {
    next_.assign(edges_.size(), 0);
    while (const int64_t pushed = push(source, sink, kUnlimited)) total += pushed;
  }
  return total;
}

bool FlowNetwork::find_levels(int source, int sink) {
  level_.assign(edges_.size(), -1);
  level_[static_cast<size_t>(source)] = 0;
  std::vector<int> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (const Edge& edge : edges_[static_cast<size_t>(queue[i])]) {
      int& level = level_[static_cast<size_t>(edge.to)];
      if (edge.left == 0 || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[i])] + 1;
      queue.push_back(edge.to);
    }
  return level_[static_cast<size_t>(sink)] >= 0;
}

int64_t FlowNetwork::push(int node, int sink, int64_t most) {
  if (node == sink) return most;
  const auto from = static_cast<size_t>(node);
  for (size_t& i = next_[from]; i < edges_[from].size(); ++i) {
    Edge& edge = edges_[from][i];
    if (edge.left == 0 || level_[static_cast<size_t>(edge.to)] != level_[from] + 1) continue;
    const int64_t pushed = push(edge.to, sink, std::min(most, edge.left));
    if (pushed == 0) continue;
    edge.left -= pushed;
    edges_[static_cast<size_t>(edge.to)][edge.back].left += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> FlowNetwork::source_side(int source) const {
  std::vector<bool> side(edges_.size(), false);
  std::vector<int> queue = {source};
  side[static_cast<size_t>(source)] = true;
  for (size_t i = 0; i < queue.size(); ++i)
    for (const Edge& edge : edges_[static_cast<size_t>(queue[i])]) {
      if (edge.left == 0 || side[static_cast<size_t>(edge.to)]) continue;
      side[static_cast<size_t>(edge.to)] = true;
      queue.push_back(edge.to);
    }
  return side;
}

}  // namespace tensora::jit
