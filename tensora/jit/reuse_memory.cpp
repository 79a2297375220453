#include <algorithm>

#include "tensora/jit/plan.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

/// Finds results that can take the memory of an operand which nobody reads any more: the kernel
/// then works in place, in memory that is in the cache.
class Reuse {
 public:
  Reuse(const Tape& tape, Plan& plan) : tape_(tape), plan_(plan) {}

  void run() {
    std::vector<bool> seen(tape_.memories().size(), false);
    for (Launch& launch : plan_.launches) {
      fresh_.clear();
      for (const std::vector<uint32_t>* nodes : {&launch.nodes, &launch.again})
        for (uint32_t index : *nodes) {
          const TapeNode& node = tape_.nodes()[index];
          for (uint32_t i = 0; i < node.inputs + node.outputs; ++i) {
            const int memory = tape_.operand(node.first + i).memory;
            if (memory < 0 || seen[static_cast<size_t>(memory)]) continue;
            seen[static_cast<size_t>(memory)] = true;
            fresh_.push_back(memory);
          }
        }
      if (launch.kernel && launch.kernel->row_dims == 0 && launch.list.empty())
        in_kernel(launch);
      else if (!launch.kernel && tape_.nodes()[launch.nodes[0]].op->pointwise)
        in_op(launch);
    }
  }

 private:
  static bool has(const std::vector<int>& list, int memory) {
    return std::find(list.begin(), list.end(), memory) != list.end();
  }
  const Memory& memory(int number) const { return tape_.memories()[static_cast<size_t>(number)]; }

  // A memory that the launch fills as a whole for the first time.
  bool is_new(const Operand& result) const {
    const Memory& target = memory(result.memory);
    return target.made_here && has(fresh_, result.memory) && result.offset_bytes == 0 &&
           result.view.bytes() == target.storage->bytes() && result.view.numel > 1;
  }
  // A memory that belongs to the tape and is read here for the last time.
  bool is_spent(const Launch& launch, const Operand& input) const {
    return input.memory >= 0 && has(launch.releases, input.memory) && !has(fresh_, input.memory) &&
           tape_.is_dead(input.memory);
  }
  bool fit(const Operand& input, const Operand& result) const {
    return input.offset_bytes == 0 &&
           memory(input.memory).storage->bytes() == memory(result.memory).storage->bytes() &&
           element_size(input.view.dtype) == element_size(result.view.dtype) &&
           input.view.device == result.view.device;
  }
  static bool is_taken(const Launch& launch, int input) {
    return std::any_of(launch.reuses.begin(), launch.reuses.end(),
                       [&](const auto& pair) { return pair.second == input; });
  }

  void in_op(Launch& launch) const {
    const TapeNode& node = tape_.nodes()[launch.nodes[0]];
    if (node.outputs != 1 || !is_new(tape_.outputs(node)[0])) return;
    const Operand& result = tape_.outputs(node)[0];
    for (const Operand& input : tape_.inputs(node)) {
      if (!is_spent(launch, input) || !fit(input, result)) continue;
      const auto inputs = tape_.inputs(node);
      if (std::all_of(inputs.begin(), inputs.end(), [&](const Operand& other) {
            return other.memory != input.memory || (other.view.sizes == result.view.sizes &&
                                                    other.view.strides == result.view.strides);
          }))
        launch.reuses = {{result.memory, input.memory}};
    }
  }

  void in_kernel(Launch& launch) const {
    const PlannedKernel& kernel = *launch.kernel;
    const TileProgram& program = kernel.tile.program();
    for (size_t r = 0; r < kernel.results.size(); ++r) {
      const Operand& result = tape_.operand(kernel.results[r].operand);
      if (!is_new(result)) continue;
      for (size_t i = 0; i < kernel.inputs.size(); ++i) {
        const Operand& input = tape_.operand(kernel.inputs[i].operand);
        if (!is_spent(launch, input) || !fit(input, result) || is_taken(launch, input.memory) ||
            kernel.inputs[i].sizes != kernel.results[r].sizes ||
            kernel.inputs[i].strides != kernel.results[r].strides ||
            !is_read_before(program, static_cast<int>(i), program.results[r]) ||
            is_used_elsewhere(kernel, input.memory))
          continue;
        launch.reuses.emplace_back(result.memory, input.memory);
        break;
      }
    }
  }

  // As another input, or by a result that overwrites it: later stages of the kernel may read that
  // where it is stored.
  bool is_used_elsewhere(const PlannedKernel& kernel, int memory) const {
    const auto uses = [&](const PlannedOperand& each) {
      return tape_.operand(each.operand).memory == memory;
    };
    return std::count_if(kernel.inputs.begin(), kernel.inputs.end(), uses) > 1 ||
           std::any_of(kernel.results.begin(), kernel.results.end(), uses);
  }

  // A kernel stores a result as soon as it is computed: everything else that uses the input must
  // come before.
  static bool is_read_before(const TileProgram& program, int input, int result) {
    std::vector<bool> before(static_cast<size_t>(program.value_count()), false);
    before[static_cast<size_t>(result)] = true;
    for (int value = result; value >= program.input_count(); --value)
      if (before[static_cast<size_t>(value)])
        for (int operand : program.step_of(value)->operands)
          if (operand >= 0) before[static_cast<size_t>(operand)] = true;
    for (int value = program.input_count(); value < program.value_count(); ++value) {
      const std::vector<int>& operands = program.step_of(value)->operands;
      if (!before[static_cast<size_t>(value)] &&
          std::find(operands.begin(), operands.end(), input) != operands.end())
        return false;
    }
    return std::find(program.results.begin(), program.results.end(), input) ==
           program.results.end();
  }

  const Tape& tape_;
  Plan& plan_;
  std::vector<int> fresh_;  // memories that no launch before this one uses
};

}  // namespace

void reuse_memory(const Tape& tape, Plan& plan) { Reuse(tape, plan).run(); }

}  // namespace tensora::jit
