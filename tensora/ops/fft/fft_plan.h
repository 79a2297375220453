#pragma once

// Internal header: Fourier transforms of one length, how they are split, and the tables that they
// need.

#include <cstdint>
#include <memory>
#include <vector>

namespace tensora::cpu {

/// Butterflies of one radix over a whole line. Element q + stride * (block + blocks * j) of the
/// input, j < radix, makes element q + stride * (radix * block + j) of the output.
template <class T>
struct FftPass {
  int64_t radix = 1;
  int64_t blocks = 1;
  int64_t stride = 1;
  std::vector<T> twiddles = {};  // blocks, radix - 1, 2: what the outputs are multiplied by
  std::vector<T> roots = {};     // radix, 2: the roots of unity; of odd radices
};

/// Note [Lines in lanes]
/// Lines of one length are transformed together, one in each lane of a vector, by Stockham's
/// algorithm, pass by pass: no element is exchanged between lanes. A single line that is long is an
/// array of `rows->n` columns and `columns->n` rows: its columns are transformed in lanes, each
/// element is multiplied by its twist, and the rows are transformed in lanes. A length with a large
/// prime factor becomes a convolution with a chirp (Bluestein's algorithm), whose length is longer
/// and made of small primes. The inverse is the same transform with both parts exchanged.
template <class T>
struct FftPlan {
  int64_t n = 1;
  std::vector<FftPass<T>> passes;  // none where n is 1, or too long for them, or not smooth

  // How a single line is split; null if it is not.
  std::shared_ptr<const FftPlan> columns, rows;
  int64_t row_length = 0;             // rows->n rounded up to whole vectors
  std::vector<T> twist_re, twist_im;  // columns->n, row_length

  // The convolution, of length convolution->n; null unless n has a large prime factor.
  std::shared_ptr<const FftPlan> convolution;
  std::vector<T> chirp;     // n, 2
  std::vector<T> spectrum;  // convolution->n, 2: the chirp's transform over convolution->n

  // Real lines of even length n are complex ones of n / 2, whose spectrum is taken apart.
  std::shared_ptr<const FftPlan> packed;
  std::vector<T> roots;  // n / 2 + 1, 2: e^(-2 pi i k / n)

  bool runs_in_lanes() const {
    return n == 1 || !passes.empty() || (convolution && convolution->runs_in_lanes());
  }
  /// Whether there is another way for a line that is alone.
  bool runs_alone() const { return columns || convolution; }
  int64_t longest() const { return convolution ? convolution->n : n; }
  int64_t bytes() const;
};

/// Transforms one line of complex numbers, n pairs; a kernel's, for the tables of convolutions.
template <class T>
using TransformLine = void (*)(const FftPlan<T>& plan, const T* from, T* to);

enum class FftLines : uint8_t {
  complex_lines,
  lane_lines,  // complex ones that are always transformed in lanes; smooth
  real_lines,  // of even length
};

/// The plan of a length, which is kept; the ones least recently used go when all tables together
/// exceed 64 MiB.
template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n, FftLines lines, TransformLine<T> transform);

}  // namespace tensora::cpu
