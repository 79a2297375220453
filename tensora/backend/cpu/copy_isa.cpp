#include "tensora/backend/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/pointwise.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/backend/cpu/transpose.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kBytesPerTask = 256 * 1024;

template <class C>
void identity_tile(const void*, int64_t n, void* out, const void* const* in) {
  std::memcpy(out, in[0], static_cast<size_t>(n) * sizeof(C));
}

// Every source value is exact in its own compute type, so the only rounding is the store's; or, as
// a real number becomes complex or a uint64 a float, the load's. Half numbers that stay what they
// are move as bits.
void copy_by_tiles(View from, View to) {
  if (from.dtype == to.dtype && element_size(to.dtype) == 2) from.dtype = to.dtype = DType::int16;
  static constexpr Tiles tiles{identity_tile<float>,          identity_tile<double>,
                               identity_tile<int32_t>,        identity_tile<int64_t>,
                               identity_tile<Complex<float>>, identity_tile<Complex<double>>};
  const bool widens = (is_complex(to.dtype) && !is_complex(from.dtype)) ||
                      (from.dtype == DType::uint64 && is_floating_point(to.dtype));
  const View* const in[] = {&from};
  const View* const out[] = {&to};
  run_pointwise({"copy", in, out, to.device, widens ? to.dtype : from.dtype}, tiles, nullptr);
}

void copy_bytes(const char* from, char* to, size_t bytes) {
  const bool past_cache =
      bytes >= kStreamBytes && reinterpret_cast<uintptr_t>(to) % kStreamUnit == 0;
  const int64_t unit = past_cache ? static_cast<int64_t>(kStreamUnit) : 1;
  const int64_t units = static_cast<int64_t>(bytes) / unit;
  parallel_for(units, kBytesPerTask / unit, [&](int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>((end - begin) * unit);
    if (past_cache) {
      copy_streaming(to + begin * unit, from + begin * unit, count);
      finish_streaming();
    } else {
      std::memcpy(to + begin * unit, from + begin * unit, count);
    }
  });
  const auto done = static_cast<size_t>(units * unit);
  std::memcpy(to + done, from + done, bytes - done);
}

// A plain 2-D transpose of one dtype: rows of `to` are columns of `from`.
bool is_transpose(const View& from, const View& to) {
  return from.dtype == to.dtype && from.dim() == 2 && to.dim() == 2 && from.sizes == to.sizes &&
         from.strides[0] == 1 && to.strides[1] == 1 && from.sizes[0] >= 8 && from.sizes[1] >= 8;
}

}  // namespace

void copy_elements(const View& from, const View& to) {
  if (to.numel == 0) return;
  if (is_quantized(to.dtype)) return copy_elements(blocks_as_bytes(from), blocks_as_bytes(to));
  const bool same_layout = from.sizes == to.sizes && from.dtype == to.dtype &&
                           ((from.contiguous && to.contiguous) ||
                            (from.strides == to.strides && is_dense(to.sizes, to.strides)));
  if (same_layout) return copy_bytes(from.as<const char>(), to.as<char>(), to.bytes());
  if (is_transpose(from, to)) {
    visit_element_size(to.dtype, [&]<class T>() {
      copy_transposed(from.as<const T>(), from.strides[1], to.as<T>(), to.strides[0], to.sizes[0],
                      to.sizes[1]);
    });
    return;
  }
  copy_by_tiles(from, to);
}

}  // namespace tensora::cpu::TENSORA_ISA
