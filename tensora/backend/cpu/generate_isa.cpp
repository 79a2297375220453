#include <algorithm>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/generate.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kGrainTiles = 8;

StoreFn store_from(DType compute, DType dtype) {
  switch (compute) {
    case DType::float32:
      return store_fn<float>(dtype);
    case DType::float64:
      return store_fn<double>(dtype);
    default:
      return store_fn<int64_t>(dtype);
  }
}

// Puts n gapless values at the elements [start, start + n) of `out`, in row-major order.
void scatter_rows(const View& out, StoreFn store, const char* from, size_t from_bytes,
                  int64_t start, int64_t n) {
  if (out.dim() == 0) return store(from, out.data, 1, n);
  const int inner = out.dim() - 1;
  const int64_t width = out.sizes[inner], element = static_cast<int64_t>(element_size(out.dtype));
  while (n > 0) {
    int64_t rest = start / width, offset = start % width * out.strides[inner];
    const int64_t count = std::min(n, width - start % width);
    for (int d = inner - 1; d >= 0; --d) {
      offset += rest % out.sizes[d] * out.strides[d];
      rest /= out.sizes[d];
    }
    store(from, static_cast<char*>(out.data) + offset * element, out.strides[inner], count);
    from += count * static_cast<int64_t>(from_bytes);
    start += count;
    n -= count;
  }
}

}  // namespace

void run_generate(const View& out, GenerateFn fn, DType compute, const void* functor) {
  if (out.numel == 0) return;
  const bool direct = out.contiguous && out.dtype == compute;
  const StoreFn store = store_from(compute, out.dtype);
  const size_t bytes = element_size(compute);
  const int64_t element = static_cast<int64_t>(element_size(out.dtype));
  const int64_t tiles = (out.numel + kGenerateTile - 1) / kGenerateTile;
  parallel_for(tiles, kGrainTiles, [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[kGenerateTile * 8];
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t start = tile * kGenerateTile;
      const int64_t n = std::min(kGenerateTile, out.numel - start);
      char* const target = static_cast<char*>(out.data) + start * element;
      fn(functor, start, n, direct ? target : buffer);
      if (direct) continue;
      if (out.contiguous)
        store(buffer, target, 1, n);
      else
        scatter_rows(out, store, buffer, bytes, start, n);
    }
  });
}

}  // namespace tensora::cpu::TENSORA_ISA
