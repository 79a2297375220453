#pragma once

// Internal header: blocks of a product on the calling thread, for the ways through gemm.

#include <algorithm>

#include "tensora/backend/cpu/gemm_product.h"
#include "tensora/backend/cpu/gemm_scratch.h"
#include "tensora/backend/cpu/isa.h"

namespace tensora::cpu::gemm_parts {

template <class T>
struct Kernels {
  BlockKernels<T> block;
  SkinnyKernels<T> skinny;
};

template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = [] {
#if defined(TENSORA_HAS_AVX512)
    if constexpr (std::is_same_v<T, BFloat16>)
      if (multiplies_bf16()) {
        const auto pairs = avx512bf16::block_kernels(avx512::block_kernels<T>());
        return Kernels<T>{multiplies_tiles() ? amx::block_kernels(pairs) : pairs,
                          avx512bf16::skinny_kernels()};
      }
    if (cpu_isa() == Isa::avx512)
      return Kernels<T>{avx512::block_kernels<T>(), avx512::skinny_kernels<T>()};
#endif
#if defined(TENSORA_HAS_AVX2)
    if (cpu_isa() == Isa::avx2)
      return Kernels<T>{avx2::block_kernels<T>(), avx2::skinny_kernels<T>()};
#endif
    return Kernels<T>{baseline::block_kernels<T>(), baseline::skinny_kernels<T>()};
  }();
  return chosen;
}

template <class T>
bool stored_as_computed() {
  return sizeof(T) == sizeof(gemm_compute_t<T>);
}

/// Where the block product of a range of k accumulates: out itself or separate sums.
template <class C>
struct Target {
  C* data = nullptr;  // null: sums of the thread, which become elements of out when complete
  int64_t row_stride = 0;
  C alpha = 1;
  C beta = 0;
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

/// Panels of b for `cols` and `depths`, one step of k after the other; null data: read b in place.
template <class C>
struct PackedB {
  const C* data = nullptr;
  Range cols = {};
  Range depths = {};
};

/// How much of k is multiplied at once: equal steps, so that no short one is left, for which
/// reading and writing out would cost more than multiplying. An odd multiple, so that panels do not
/// begin a multiple of 4096 bytes apart.
template <class T>
int64_t step_of_k(int64_t k) {
  const BlockKernels<T>& block = kernels<T>().block;
  const int64_t even = ceil_div(k, ceil_div(k, block.k_block));
  return std::min(block.k_block, (ceil_div(even, block.k_multiple) | 1) * block.k_multiple);
}

template <class T>
void pack_columns(const Product<T>& p, const PackedB<gemm_compute_t<T>>& packed, Range cols,
                  gemm_compute_t<T>* data) {
  const BlockKernels<T>& block = kernels<T>().block;
  const int64_t width = round_up(packed.cols.size(), block.vector_width);
  const int64_t step = step_of_k<T>(p.k);
  for (int64_t depth = packed.depths.begin; depth < packed.depths.end; depth += step) {
    const int64_t k = std::min(step, packed.depths.end - depth);
    const MatrixView<const T> b = {p.b.at(depth, cols.begin), p.b.row_stride, p.b.col_stride};
    block.pack_b(
        b, k, cols.size(),
        data + (depth - packed.depths.begin) * width + (cols.begin - packed.cols.begin) * k);
  }
}

/// target[rows, cols] over packed.depths, on this thread. cols begin at a panel of `packed`.
template <class T>
void multiply_part(const Product<T>& p, const PackedB<gemm_compute_t<T>>& packed, Range rows,
                   Range cols, const Target<gemm_compute_t<T>>& target) {
  using C = gemm_compute_t<T>;
  const BlockKernels<T>& block = kernels<T>().block;
  const int64_t width = round_up(packed.cols.size(), block.vector_width);
  const int64_t step = step_of_k<T>(p.k);
  BlockProduct<T> product = {
      .n = cols.size(),
      .out_row_stride = target.row_stride,
      .alpha = target.alpha,
      .scratch = GemmScratch::of_this_thread().get<C>(GemmScratch::Purpose::tile, block.scratch),
  };
  // Rows outside, k inside: a block of out stays in cache while it is accumulated.
  for (int64_t row = rows.begin; row < rows.end; row += product.m) {
    product.m = std::min(block.row_block, rows.end - row);
    product.out = target.data + row * target.row_stride + cols.begin;
    product.beta = target.beta;
    for (int64_t depth = packed.depths.begin; depth < packed.depths.end; depth += step) {
      product.k = std::min(step, packed.depths.end - depth);
      product.a = {p.a.at(row, depth), p.a.row_stride, p.a.col_stride};
      if (packed.data != nullptr) {
        product.b_packed = packed.data + (depth - packed.depths.begin) * width +
                           (cols.begin - packed.cols.begin) * product.k;
      } else {
        product.b = {reinterpret_cast<const C*>(p.b.at(depth, cols.begin)), p.b.row_stride, 1};
      }
      block.multiply(product);
      product.beta = C{1};
    }
  }
}

}  // namespace tensora::cpu::gemm_parts
