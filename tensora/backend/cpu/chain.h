#pragma once

// Note [Chains]
// A chain is a list of functors that run one after the other on a strip of elements which stays in
// eight vector registers. A step computes and jumps to the next step, as a tail call with the strip
// as arguments: nothing is stored in between, and no code is generated at run time. A functor's
// other operands are in memory: in an array, or in a slot of a strip's size that an earlier step
// stored a value in. Steps exist for float; the formulas are those of the eager loops, so results
// have the same bits.

#include <cstdint>

#include "tensora/core/dtype.h"

namespace tensora::cpu {

inline constexpr int kChainOperands = 4;  // in memory, apart from the one in registers

/// One step. Its operands lie at memory[k] + (position & mask[k]), where `position` is the strip's
/// first element in bytes of float: the mask is -1 for arrays, 0 for slots.
struct ChainStep {
  void (*run)() = nullptr;  // a function whose type depends on the instruction set
  const void* functor = nullptr;
  char* memory[kChainOperands] = {};
  int64_t mask[kChainOperands] = {};
};

using ChainCode = void (*)();

/// Elements `stride` apart into n contiguous floats, and the reverse.
using ChainLoad = void (*)(const void* from, int64_t stride, int64_t n, void* to);
using ChainStore = void (*)(const void* from, void* to, int64_t stride, int64_t n);

/// The steps of one instruction set; `strip` is 0 where there are none.
struct ChainFunctions {
  int64_t strip = 0;         // elements
  ChainCode load = nullptr;  // the strip from memory[0]
  ChainCode store = nullptr;
  ChainCode stream = nullptr;  // a store past the cache, to memory that is aligned to 64 bytes
  /// The code for a functor with these attributes: a simpler one where they allow it.
  ChainCode (*code_for)(ChainCode code, const void* functor) = nullptr;
  /// Loads and stores of 16-bit floats, which convert on the way; null for other dtypes.
  ChainCode (*load_narrow)(DType dtype) = nullptr;
  ChainCode (*store_narrow)(DType dtype) = nullptr;
  ChainCode round_bfloat16 = nullptr, round_float16 = nullptr;
  ChainCode end = nullptr;  // the last step
  /// Runs the chain on strips from element 0 on.
  void (*run)(const ChainStep* first, int64_t strips) = nullptr;
  void (*finish_streaming)() = nullptr;
  /// rows x columns elements of `bytes` bytes, of which those of a column are adjacent and columns
  /// `stride` elements apart, into rows `width` elements apart.
  void (*transpose)(int64_t bytes, const void* from, int64_t stride, int64_t rows, int64_t columns,
                    void* to, int64_t width) = nullptr;
  ChainLoad (*load_of)(DType dtype) = nullptr;
  ChainStore (*store_of)(DType dtype) = nullptr;
};
const ChainFunctions& chain_functions();
void set_chain_functions(const ChainFunctions& functions);

/// The step of a pointwise op that takes operand `position` from registers; null if there is none.
/// Ops are known by their addresses.
ChainCode chain_step(const void* op, int position);
void set_chain_step(const void* op, int position, ChainCode code);
/// Whether the op's results have the precision of its operands, so that they need no rounding.
bool chain_step_is_exact(const void* op);
void set_chain_step_is_exact(const void* op);

}  // namespace tensora::cpu
