#include "tensora/backend/cuda/loops/rows.cuh"

#include <algorithm>

namespace tensora::cuda {

std::optional<RowsParams> rows_of(const KernelContext& context, uint32_t reduced) {
  constexpr int64_t kShortestRow = 32;  // shorter ones leave too many threads of a warp idle
  constexpr int64_t kRowOfWarp = 1024;
  const View& in = context.input(0);
  for (const View* out : context.out)
    if (!out->contiguous) return {};
  int64_t length = 1, rows = 1, row_stride = 0;
  for (int d = in.dim() - 1; d >= 0; --d) {
    const bool is_reduced = reduced >> d & 1;
    if (in.sizes[d] == 1) continue;
    if (is_reduced && (rows > 1 || in.strides[d] != length)) return {};
    if (!is_reduced && rows > 1 && in.strides[d] != row_stride * rows) return {};
    if (!is_reduced && rows == 1) row_stride = in.strides[d];
    (is_reduced ? length : rows) *= in.sizes[d];
  }
  if (length < kShortestRow || length > kLongestRow || rows >= int64_t{1} << 31) return {};
  // A few long rows would leave most of the device idle; a reduction splits them.
  if (length > kRowOfWarp && rows < device_info(context.device.index).multiprocessors) return {};
  const auto bytes = static_cast<int64_t>(element_size(in.dtype));
  const View& out = context.output();
  const int64_t pack = out.dtype == DType::float64 ? 2 : 4;
  const int64_t alignment = std::min<int64_t>(16, pack * bytes);
  RowsParams params{};
  params.in = in.as<const char>();
  params.out = out.as<char>();
  params.second_out = context.out.size() > 1 ? context.output(1).as<char>() : nullptr;
  params.row_bytes = row_stride * bytes;
  params.rows = static_cast<unsigned>(rows);
  params.length = static_cast<int>(length);
  params.vector = reinterpret_cast<uintptr_t>(in.data) % static_cast<uintptr_t>(alignment) == 0 &&
                  params.row_bytes % alignment == 0 && length % pack == 0;
  params.in_dtype = in.dtype;
  params.out_dtype = out.dtype;
  params.out_bytes = static_cast<int>(element_size(out.dtype));
  return params;
}

}  // namespace tensora::cuda
