#pragma once

// Internal header
// Products of few activation rows with quantized weights on CUDA, as when tokens are generated one
// by one. See Note [Few rows times quantized weights].

#include <cstdint>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

inline constexpr int kFewRows = 32;  // of activations, at most
/// Of a single row of activations, so that they fit into shared memory beside weights.
inline constexpr int kMostNumbers = 24 << 10;

/// A weight matrix whose rows are multiplied: N rows of K numbers.
struct RowsWeight {
  const char* data = nullptr;
  const char* up = nullptr;  // gated products: the second matrix
  const float* scale = nullptr;
  const float* up_scale = nullptr;
  int64_t row_bytes = 0;
  int rows = 0;
  int first_tile = 0;  // of the launch's tiles
  int column = 0;      // of the result's first number
};

/// out[r][n] = x[r] · weight[n], plus bias and residual; gated: activation(x · gate) (x · up).
struct RowsCall {
  static constexpr int kMostWeights = 3;
  enum class Gate : int { none, silu, gelu_tanh };

  RowsWeight weights[kMostWeights] = {};
  int count = 0;  // of weights
  const char* x = nullptr;
  char* out = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  const float* norm = nullptr;       // x is float32, and x / rms(x) norm is multiplied
  float eps = 0;                     // of the norm
  int rows = 0, columns = 0, k = 0;  // columns: of a row of the result
  int tiles = 0, team = 0;           // of the launch; warps that share a tile
  int stages = 0;                    // of weights in shared memory
  bool begins_late = false;          // see Note [Launches side by side]
  bool joins = false;
  DType x_dtype = DType::bfloat16, out_dtype = DType::float32;
  DType bias_dtype = DType::float32, residual_dtype = DType::float32;
  Gate gate = Gate::none;
};

// Note [Launches side by side]
// Where the weights of a call have several dtypes, each has a launch. They need nothing of one
// another, so one row's run together: the first one lets the next begin only when it has seen the
// end of the kernel before it (`begins_late`); the next ones `join` it: they do not wait at their
// beginning, but at their end, so that what follows them finds the results of all.

/// Queues the product on tensor cores; all weights have dtype `weight`. False, and nothing is
/// queued, where it does not apply: other activations than bfloat16 (float16 for float16 weights),
/// more than kFewRows rows, or than one with a norm, addresses that are not aligned.
bool few_rows(std::string_view op, int device, DType weight, const RowsCall& call);

/// The same by plain arithmetic, for all that few_rows refuses; any number of rows.
void general_rows(std::string_view op, int device, DType weight, const RowsCall& call);

/// Many rows: unpacks the weights and multiplies by cuBLASLt.
void many_rows(std::string_view op, int device, DType weight, const RowsCall& call);

/// Any number of rows, by the kernel that suits it. True if few_rows took all of them.
bool multiply_rows_by(std::string_view op, int device, DType weight, const RowsCall& call);

/// A weight's numbers times its scales, as float32, float16 or bfloat16.
void unpack_weight(std::string_view op, int device, DType weight, const char* from,
                   const float* scale, int64_t rows, int64_t k, DType dtype, void* to);

}  // namespace tensora::cuda
