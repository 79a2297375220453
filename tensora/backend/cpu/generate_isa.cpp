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

// Calls run(offset, count) for each range of [start, start + n), in row-major order, that lies
// within one row; offsets in elements.
template <class Run>
void each_row(const View& view, int64_t start, int64_t n, const Run& run) {
  if (view.dim() == 0) return run(0, n);
  const int inner = view.dim() - 1;
  const int64_t width = view.sizes[inner];
  while (n > 0) {
    int64_t rest = start / width, offset = start % width * view.strides[inner];
    const int64_t count = std::min(n, width - start % width);
    for (int d = inner - 1; d >= 0; --d) {
      offset += rest % view.sizes[d] * view.strides[d];
      rest /= view.sizes[d];
    }
    run(offset, count);
    start += count;
    n -= count;
  }
}

int64_t inner_stride(const View& view) {
  return view.dim() == 0 ? 1 : view.strides[view.dim() - 1];
}

void scatter_rows(const View& out, StoreFn store, int64_t start, int64_t n, const char* from,
                  size_t from_bytes) {
  each_row(out, start, n, [&](int64_t offset, int64_t count) {
    store(from, out.as<char>() + offset * static_cast<int64_t>(element_size(out.dtype)),
          inner_stride(out), count);
    from += count * static_cast<int64_t>(from_bytes);
  });
}

}  // namespace

void gather_rows(const View& in, LoadFn load, int64_t start, int64_t n, void* to, size_t to_bytes) {
  char* target = static_cast<char*>(to);
  each_row(in, start, n, [&](int64_t offset, int64_t count) {
    load(in.as<char>() + offset * static_cast<int64_t>(element_size(in.dtype)), inner_stride(in),
         count, target);
    target += count * static_cast<int64_t>(to_bytes);
  });
}

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
        scatter_rows(out, store, start, n, buffer, bytes);
    }
  });
}

}  // namespace tensora::cpu::TENSORA_ISA
