#include <algorithm>
#include <type_traits>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/norm/residual_norm_call.h"
#include "tensora/ops/quant/quant_batch.h"
#include "tensora/ops/quant/quant_rows_tiles.h"
#include "tensora/ops/quant/quant_several_rows.h"

namespace tensora::cuda {
namespace {

bool launch_few(std::string_view op, int device, DType weight, const RowsCall& call) {
  switch (weight) {
    case DType::q4_0:
      return rows_of_q4_0(op, device, call);
    case DType::q4_1:
      return rows_of_q4_1(op, device, call);
    case DType::q5_0:
      return rows_of_q5_0(op, device, call);
    case DType::q5_1:
      return rows_of_q5_1(op, device, call);
    case DType::q8_0:
      return rows_of_q8_0(op, device, call);
    case DType::q2_k:
      return rows_of_q2_k(op, device, call);
    case DType::q3_k:
      return rows_of_q3_k(op, device, call);
    case DType::q4_k:
      return rows_of_q4_k(op, device, call);
    case DType::q5_k:
      return rows_of_q5_k(op, device, call);
    case DType::q6_k:
      return rows_of_q6_k(op, device, call);
    case DType::iq4_nl:
      return rows_of_iq4_nl(op, device, call);
    case DType::iq4_xs:
      return rows_of_iq4_xs(op, device, call);
    case DType::mxfp4:
      return rows_of_mxfp4(op, device, call);
    case DType::nf4:
      return rows_of_nf4(op, device, call);
    case DType::int8:
      return rows_of_int8(op, device, call);
    case DType::float8_e4m3fn:
      return rows_of_float8(op, device, call);
    case DType::float16:
      return rows_of_float16(op, device, call);
    case DType::bfloat16:
      return rows_of_bfloat16(op, device, call);
    default:
      return false;
  }
}

bool launch_several(std::string_view op, int device, DType weight, const RowsCall& call) {
  switch (weight) {
    case DType::q4_0:
      return several_of_q4_0(op, device, call);
    case DType::q8_0:
      return several_of_q8_0(op, device, call);
    case DType::q4_k:
      return several_of_q4_k(op, device, call);
    case DType::q5_k:
      return several_of_q5_k(op, device, call);
    case DType::q6_k:
      return several_of_q6_k(op, device, call);
    case DType::iq4_nl:
      return several_of_iq4_nl(op, device, call);
    case DType::mxfp4:
      return several_of_mxfp4(op, device, call);
    default:
      return false;
  }
}

/// `count` rows of a call, from `first` on.
RowsCall rows_of(const RowsCall& call, int first, int count) {
  RowsCall part = call;
  const auto after = [&](auto* data, DType dtype, int64_t width) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>,
                                    const char, char>;
    return data ? reinterpret_cast<Byte*>(data) + bytes_of(dtype, first * width) : nullptr;
  };
  part.rows = count;
  part.x = after(call.x, call.x_dtype, call.k);
  part.out = after(call.out, call.out_dtype, call.columns);
  part.residual = after(call.residual, call.residual_dtype, call.columns);
  return part;
}

// What the kernels that take a norm do themselves, for all others.
void normalise_first(std::string_view op, int device, DType weight, const RowsCall& call) {
  const DType dtype =
      weight == DType::float32 || weight == DType::float16 ? weight : DType::bfloat16;
  const Scratch rows(device, static_cast<size_t>(bytes_of(dtype, int64_t{call.rows} * call.k)));
  norm_residual(op, device,
                {.x = call.x,
                 .weight = call.norm,
                 .residual = nullptr,
                 .out = rows.data(),
                 .sum = nullptr,
                 .x_dtype = call.x_dtype,
                 .weight_dtype = DType::float32,
                 .residual_dtype = DType::float32,
                 .out_dtype = dtype,
                 .rows = call.rows,
                 .width = call.k,
                 .eps = call.eps,
                 .unit_offset = 0});
  RowsCall after = call;
  after.norm = nullptr;
  after.x = rows.data();
  after.x_dtype = dtype;
  after.begins_late = after.joins = false;  // the norm is in front of it
  multiply_rows_by(op, device, weight, after);
}

}  // namespace

bool few_rows(std::string_view op, int device, DType weight, const RowsCall& call) {
  const DType wanted = weight == DType::float16 ? DType::float16 : DType::bfloat16;
  const bool fits = call.norm ? call.rows == 1 : call.x_dtype == wanted;
  const bool readable = fits && call.k % 8 == 0 && call.k > 0 &&
                        (call.rows > 1 || call.k <= kMostNumbers) &&
                        reinterpret_cast<uintptr_t>(call.x) % 16 == 0 &&
                        reinterpret_cast<uintptr_t>(call.norm) % 16 == 0 &&
                        call.weights[0].row_bytes < int64_t{1} << 30;
  return readable && call.rows <= kFewRows && launch_few(op, device, weight, call);
}

bool several_rows(std::string_view op, int device, DType weight, const RowsCall& call) {
  // From five rows on it is faster than batch_rows only where that has much to unpack.
  const bool slow_to_unpack = weight == DType::q6_k || weight == DType::q8_0;
  const int most = slow_to_unpack ? kSeveralMostRows : kSeveralMostRows / 2;
  // Its shared memory is Hopper's.
  if (call.rows < 2 || call.rows > most || !runs_sm90a(device) || call.norm ||
      call.x_dtype != DType::bfloat16 || call.k <= 0 || call.k % 8 != 0 ||
      reinterpret_cast<uintptr_t>(call.x) % 16 != 0 ||
      call.weights[0].row_bytes >= int64_t{1} << 28)
    return false;
  return launch_several(op, device, weight, call);
}

bool multiply_rows_by(std::string_view op, int device, DType weight, const RowsCall& call) {
  if (call.rows == 0 || call.columns == 0) return false;
  if (call.norm) {
    if (few_rows(op, device, weight, call)) return true;
    normalise_first(op, device, weight, call);
    return false;
  }
  if (several_rows(op, device, weight, call)) return true;
  if (call.rows >= kBatchLeastRows && call.rows <= kBatchMostRows &&
      batch_rows(op, device, weight, call))
    return true;
  // Where the library multiplies by a weight as it is, it is better from a few rows on.
  const bool plain = weight == call.x_dtype;
  constexpr int kPlainRows = 8, kTwice = 2 * kFewRows;
  if (call.rows > (plain ? kPlainRows : kTwice)) {
    many_rows(op, device, weight, call);
    return false;
  }
  bool few = true;
  for (int first = 0; first < call.rows; first += kFewRows) {
    const RowsCall part = rows_of(call, first, std::min(call.rows - first, kFewRows));
    if (few_rows(op, device, weight, part)) continue;
    few = false;
    if (call.rows > kPlainRows) {
      many_rows(op, device, weight, call);
      break;
    }
    general_rows(op, device, weight, part);
  }
  return few;
}

}  // namespace tensora::cuda
