#pragma once

// Fourier transforms by cuFFT, which is opened when the first one asks for it.

#include <optional>
#include <string_view>

#include "tensora/core/dtype.h"
#include "tensora/core/shape.h"

namespace tensora::cuda {

enum class FftKind : uint8_t { complex, real_to_complex, complex_to_real };

/// How lines lie, in elements: from one of a line to the next, and from one line to the next.
struct FftLines {
  int64_t step = 1, distance = 1;

  bool operator==(const FftLines&) const = default;
};

/// `count` arrays of one to three dims, row by row and one after the other; those of one dim may be
/// lines that lie otherwise. `sizes` are those of the real or complex numbers; a half spectrum has
/// sizes.back() / 2 + 1 in the last dim.
struct FftBatch {
  std::string_view op;
  int device = 0;
  FftKind kind = FftKind::complex;
  DType parts = DType::float32;  // or float64
  Shape sizes;
  int64_t count = 1;
  std::optional<FftLines> from = {}, to = {};  // both or none
};

/// Queues the transforms on the current stream, not normalised. Complex ones may be in place; from
/// complex to real numbers the input is destroyed. Addresses are those of complex numbers.
void run_fft(const FftBatch& batch, void* from, void* to, bool forward);

}  // namespace tensora::cuda
