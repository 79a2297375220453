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
  std::vector<T> roots = {};     // 2, radix: the roots of unity; of odd radices
  // radix - 1, 2, blocks * stride: one for each q + stride * block; of the first two passes of
  // lines that run along vectors.
  std::vector<T> element_twiddles = {};
};

/// Note [Lines in lanes]
/// Lines are transformed by Stockham's algorithm, pass by pass, in vectors that hold real parts,
/// and others that hold imaginary parts. There are two layouts:
/// - across: several lines are transformed together, one in each lane, and no element is exchanged
///   between lanes. Columns are read and written as they lie in memory, other lines are transposed.
/// - along: a vector has neighbouring elements of one line. Two passes of radix 4 exchange elements
///   between lanes; after them neighbours remain neighbours. Length: a multiple of 64. Lines that
///   are contiguous are read, transformed in the first-level cache and written.
/// A single line that is too long is an array of `rows->n` columns and `columns->n` rows: its
/// columns are transformed across, each element is multiplied by its twist, and the rows are
/// transformed across. A length with a large prime factor becomes a convolution with a chirp
/// (Bluestein's algorithm), whose length is longer and made of small primes. The inverse is the
/// same transform with both parts exchanged.
template <class T>
struct FftPlan {
  int64_t n = 1;
  std::vector<FftPass<T>> passes;  // none where n is 1, or too long for them, or not smooth
  bool along = false;              // whether the passes also run along vectors

  // How a single line is split; null if it is not.
  std::shared_ptr<const FftPlan> columns, rows;
  std::vector<T> twists;  // see FftTwists

  // The convolution, of length convolution->n; null unless n has a large prime factor. Tables have
  // all real parts, then all imaginary ones.
  std::shared_ptr<const FftPlan> convolution;
  std::vector<T> chirp;     // 2, n and zeros up to whole vectors
  std::vector<T> spectrum;  // 2, convolution->n: the chirp's transform over convolution->n
  // Of a line along vectors, in as many columns as they have lanes; null if it does not run so.
  std::shared_ptr<const FftPlan> convolution_columns;
  std::vector<T> convolution_twists;  // 2, convolution->n

  // Real lines of even length n are complex ones of n / 2, whose spectrum is taken apart.
  std::shared_ptr<const FftPlan> packed;
  std::vector<T> roots;  // 2, n / 2 + 1: e^(-2 pi i k / n)

  bool runs_across() const;
  bool runs_along() const { return along || convolution_columns; }
  /// Whether there is another way than across for a line that is alone.
  bool runs_alone() const { return columns || convolution || along; }
  int64_t longest() const { return convolution ? convolution->n : n; }
  int64_t bytes() const;
};

/// Where the twist of row k and column j of a split line is: the product of one for k modulo kFine
/// and one for the rest of k, because a table of all would be as long as the line. Columns are in
/// groups of kGroup, and each group has the kFine fine twists, then the coarse ones; real parts,
/// then imaginary ones, kGroup of each.
struct FftTwists {
  static constexpr int64_t kFine = 32, kGroup = 16;
  int64_t count;  // in a group

  explicit FftTwists(int64_t columns) : count(kFine + (columns + kFine - 1) / kFine) {}
  int64_t at(int64_t twist, int64_t j) const {
    return (j / kGroup * count + twist) * 2 * kGroup + j % kGroup;
  }
};

/// What plans need to know of the kernel that runs them.
template <class T>
struct FftKernel {
  /// Transforms one line of complex numbers, n pairs; for the tables of convolutions.
  void (*transform)(const FftPlan<T>& plan, const T* from, T* to);
  int64_t lanes;  // of its vectors
};

enum class FftLines : uint8_t {
  complex_lines,
  lane_lines,  // complex ones that are always transformed across; smooth
  real_lines,  // of even length
};

/// The plan of a length, which is kept; the ones least recently used go when all tables together
/// exceed 64 MiB.
template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n, FftLines lines, const FftKernel<T>& kernel);

}  // namespace tensora::cpu
