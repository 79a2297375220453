#pragma once

// Internal header: block programs as CUDA text.

#include "tensora/jit/block_program.h"

namespace tensora::jit {

/// A printed kernel, called `tile`. Its one parameter is `words` 64-bit words, then the functors of
/// the pointwise steps, 16 bytes aligned.
struct BlockText {
  std::string text;
  int threads = 128;
  size_t words = 0;
  std::vector<size_t> functor_at;  // per step, in bytes from the beginning of the parameter
  size_t bytes = 0;                // of the parameter
  size_t shared_bytes = 0;
};

/// Throws if the program cannot be printed, or KernelDoesNotFit if no GPU could hold its tiles.
BlockText print_block(const BlockProgram& program);

/// The words of a launch, in the order that the text expects.
std::vector<uint64_t> block_words(const BlockProgram& program, std::span<const View> arrays);

/// Equal for programs with equal texts.
std::string block_key(const BlockProgram& program);

}  // namespace tensora::jit
