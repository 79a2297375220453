#pragma once

#include <memory>

#include "tensora/jit/graph.h"

namespace tensora::jit {

/// A run of pointwise ops over one shape that becomes one kernel. Values are numbered within the
/// program: first the inputs, then one per instruction.
struct Program {
  struct Instruction {
    const OpBase* op;
    AttrsCopy attrs;
    DType compute_dtype;
    std::vector<int> operands;
  };
  Shape sizes = {};
  Device device = {};
  std::vector<Instruction> instructions = {};
  std::vector<DType> dtypes = {};      // of every value
  std::vector<bool> host_inputs = {};  // 0-dim CPU tensors used on another device, as numbers
  std::vector<int> outputs = {};       // values that are needed outside

  int input_count() const { return static_cast<int>(host_inputs.size()); }
};

/// The C++ type of a pointwise op's functor, whose source is embedded; empty if it is not.
std::string_view functor_type(const OpBase& op);

/// What a program was compiled to. Inputs broadcast to the program's shape; outputs have it.
class FusedKernel {
 public:
  virtual ~FusedKernel() = default;
  virtual void run(std::span<const View* const> inputs, std::span<const View* const> outputs) = 0;
};

using Emitter = std::unique_ptr<FusedKernel> (*)(const Program& program);
/// A device's library names its emitter when it is opened.
void set_emitter(DeviceType device, Emitter emitter);
/// Throws if the device has no emitter.
std::unique_ptr<FusedKernel> emit(const Program& program);

/// Executes the ops' own kernels one after the other on one tile that stays in the cache; needs no
/// compiler.
std::unique_ptr<FusedKernel> emit_cpu(const Program& program);

/// A step of a compiled graph: a program, or a single node that runs as usual.
struct Step {
  int node = -1;
  std::optional<Program> program = {};
  std::vector<int> inputs = {}, outputs = {};  // graph values
};

inline constexpr int kMaxFusedInputs = 8;
inline constexpr int kMaxFusedOutputs = 4;

/// Groups runs of at least two consecutive pointwise ops of one shape and device.
std::vector<Step> fuse_pointwise(const Graph& graph);

}  // namespace tensora::jit
