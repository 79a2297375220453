#include <algorithm>
#include <unordered_map>

#include "tensora/jit/passes.h"

namespace tensora::jit {
namespace {

class Merger {
 public:
  Merger(const Tape& tape, Rewrite& rewrite)
      : tape_(tape),
        rewrite_(rewrite),
        writes_(tape.memories().size(), 0),
        written_so_far_(tape.memories().size(), 0),
        same_(tape.memories().size()) {
    for (size_t m = 0; m < same_.size(); ++m) same_[m] = static_cast<int>(m);
    for (const TapeNode& node : tape.nodes())
      for (const Operand& output : tape.outputs(node)) ++writes_[at(output.memory)];
  }

  void run() {
    versions_.resize(tape_.size());
    for (uint32_t i = 0; i < tape_.size(); ++i) {
      const TapeNode& node = tape_.nodes()[i];
      for (const Operand& input : tape_.inputs(node))
        versions_[i].push_back(input.memory < 0 ? 0 : written_so_far_[at(same(input.memory))]);
      if (may_be_shared(node)) merge_or_keep(i);
      for (const Operand& output : tape_.outputs(node)) ++written_so_far_[at(output.memory)];
    }
  }

 private:
  static size_t at(int memory) { return static_cast<size_t>(memory); }
  int same(int memory) const { return memory < 0 ? memory : same_[at(memory)]; }

  // Its results lie in memories of their own, which no other node writes to.
  bool may_be_shared(const TapeNode& node) const {
    if (node.op->random || node.outputs == 0) return false;
    for (const Operand& output : tape_.outputs(node))
      if (!tape_.memories()[at(output.memory)].made_here || writes_[at(output.memory)] != 1)
        return false;
    return true;
  }

  static bool same_view(const Operand& a, const Operand& b) {
    return a.offset_bytes == b.offset_bytes && a.view.sizes == b.view.sizes &&
           a.view.strides == b.view.strides && a.view.dtype == b.view.dtype;
  }

  bool are_equal(uint32_t a, uint32_t b) const {
    const TapeNode &x = tape_.nodes()[a], &y = tape_.nodes()[b];
    if (x.op != y.op || x.inputs != y.inputs || x.outputs != y.outputs || !(x.device == y.device) ||
        x.compute_dtype != y.compute_dtype)
      return false;
    for (uint32_t k = 0; k < x.inputs; ++k) {
      const Operand &p = tape_.inputs(x)[k], &q = tape_.inputs(y)[k];
      if (same(p.memory) != same(q.memory)) return false;
      if (p.memory >= 0 && (!same_view(p, q) || versions_[a][k] != versions_[b][k])) return false;
    }
    for (uint32_t k = 0; k < x.outputs; ++k)
      if (!same_view(tape_.outputs(x)[k], tape_.outputs(y)[k])) return false;
    return attrs_equal(*x.op, x.attrs.get(), y.attrs.get());
  }

  void merge_or_keep(uint32_t index) {
    const TapeNode& node = tape_.nodes()[index];
    size_t key = reinterpret_cast<uintptr_t>(node.op);
    for (const Operand& input : tape_.inputs(node))
      key = key * 0x9E37'79B9 + static_cast<size_t>(same(input.memory) + 1);
    std::vector<uint32_t>& earlier = seen_[key];
    const auto outputs = tape_.outputs(node);
    const bool dead = std::all_of(outputs.begin(), outputs.end(), [&](const Operand& output) {
      return tape_.is_dead(output.memory);
    });
    const auto found = std::find_if(earlier.begin(), earlier.end(),
                                    [&](uint32_t other) { return are_equal(other, index); });
    if (!dead || found == earlier.end()) {
      earlier.push_back(index);
      return;
    }
    rewrite_.left_out[index] = true;
    ++rewrite_.equal;
    rewrite_.equals.emplace_back(index, *found);
    for (uint32_t k = 0; k < node.outputs; ++k) {
      const int from = outputs[k].memory;
      const int to = same(tape_.outputs(tape_.nodes()[*found])[k].memory);
      rewrite_.merges.emplace_back(from, to);
      same_[at(from)] = to;
    }
  }

  const Tape& tape_;
  Rewrite& rewrite_;
  std::vector<int> writes_, written_so_far_;   // per memory
  std::vector<int> same_;                      // the memory that is read instead
  std::vector<SmallVector<int, 4>> versions_;  // per node, of its inputs
  std::unordered_map<size_t, std::vector<uint32_t>> seen_;
};

}  // namespace

void merge_equal_nodes(const Tape& tape, Rewrite& rewrite) { Merger(tape, rewrite).run(); }

bool merges_hold(const Tape& tape, const Rewrite& rewrite) {
  return std::all_of(rewrite.equals.begin(), rewrite.equals.end(), [&](const auto& pair) {
    const TapeNode &a = tape.nodes()[pair.first], &b = tape.nodes()[pair.second];
    return attrs_equal(*a.op, a.attrs.get(), b.attrs.get());
  });
}

}  // namespace tensora::jit
