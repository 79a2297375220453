#include "tensora/jit/passes.h"
#include "tensora/jit/tile_program.h"

namespace tensora::jit {
namespace {

// Whether the node's kernel cannot throw because of what its operands hold, as an index that is out
// of range or a singular matrix does.
bool always_succeeds(const Tape& tape, const TapeNode& node) {
  if (node.inputs == 0 || node.op->random || node.op->pointwise) return true;
  const Operand& first = tape.inputs(node)[0];
  return first.memory >= 0 &&
         form_of(*node.op, node.attrs.get(), first.view.sizes).kind != OpForm::Kind::none;
}

}  // namespace

void leave_out_unused_nodes(const Tape& tape, Rewrite& rewrite) {
  std::vector<bool> read(tape.memories().size(), false);
  for (size_t i = tape.size(); i-- > 0;) {
    if (rewrite.left_out[i]) continue;
    const TapeNode& node = tape.nodes()[i];
    bool needed = node.outputs == 0 || !always_succeeds(tape, node);
    for (const Operand& output : tape.outputs(node))
      needed |= read[static_cast<size_t>(output.memory)] || !tape.is_dead(output.memory);
    if (!needed) {
      rewrite.left_out[i] = true;
      ++rewrite.unused;
      continue;
    }
    for (const Operand& input : tape.inputs(node))
      if (input.memory >= 0) read[static_cast<size_t>(input.memory)] = true;
  }
}

}  // namespace tensora::jit
