#pragma once

// Internal header: the parameter of a printed block program.

#include <bit>

#include "tensora/jit/block_program.h"

namespace tensora::jit {

/// Extents in CUDA text are powers of two.
inline int64_t padded(int64_t extent) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(extent, 1))));
}

/// Where each part of the parameter begins.
struct BlockWords {
  explicit BlockWords(const BlockProgram& program)
      : constants(program.integers.size()), numbers(program.steps.size()) {
    size_t next = program.arrays.size();
    for (int rank : program.ranks) {
      sizes.push_back(next);
      strides.push_back(next + static_cast<size_t>(rank));
      next += 2 * static_cast<size_t>(rank);
    }
    grid = next;
    next += program.grid.size();
    for (size_t i = 0; i < program.integers.size(); ++i)
      if (program.integers[i].kind == BlockInteger::Kind::constant) constants[i] = next++;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const BlockStep::Kind kind = program.steps[i].kind;
      const bool random = kind == BlockStep::Kind::uniform || kind == BlockStep::Kind::normal;
      numbers[i] = next;
      next += random ? 2 : kind == BlockStep::Kind::fill ? 1 : 0;
    }
    count = next;
  }

  std::vector<size_t> sizes, strides, constants, numbers;
  size_t grid = 0, count = 0;
};

}  // namespace tensora::jit
