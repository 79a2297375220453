#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

// ---- the entries of an index --------------------------------------------------------------------

/// Inserts a dim of size 1; in a slice, a bound that is left out.
inline constexpr std::nullopt_t None = std::nullopt;
/// As many full slices as are needed; the text "..." means the same.
struct EllipsisIndex {};
inline constexpr EllipsisIndex Ellipsis{};

/// Python's start:stop:step.
struct Slice {
  std::optional<int64_t> start = {};
  std::optional<int64_t> stop = {};
  int64_t step = 1;

  Slice() = default;
  Slice(std::optional<int64_t> from, std::optional<int64_t> to = {}, std::optional<int64_t> by = {})
      : start(from), stop(to), step(by.value_or(1)) {}
};

/// One entry of `x.index({1, Slice(0, 4), None, Ellipsis, mask, positions})`.
struct TensorIndex {
  enum class Kind : uint8_t { none, ellipsis, integer, boolean, slice, tensor };

  TensorIndex(std::nullopt_t) : kind(Kind::none) {}
  TensorIndex(EllipsisIndex) : kind(Kind::ellipsis) {}
  TensorIndex(const char* dots) : kind(Kind::ellipsis) {
    check(std::string_view(dots) == "...",
          "index: the only string that is an index is \"...\", got \"", dots, "\"");
  }
  TensorIndex(Slice value) : kind(Kind::slice), slice(value) {}
  TensorIndex(Tensor value) : kind(Kind::tensor), tensor(std::move(value)) {}
  template <std::integral Int>
  TensorIndex(Int value)
      : kind(std::same_as<Int, bool> ? Kind::boolean : Kind::integer),
        integer(static_cast<int64_t>(value)) {}

  Kind kind;
  int64_t integer = 0;
  Slice slice;
  Tensor tensor;
};
using TensorIndices = std::span<const TensorIndex>;

/// NumPy's and PyTorch's indexing. Integers, slices, None and Ellipsis give a view; integer and
/// bool tensors, which may be mixed in, select elements and give a copy. Their broadcast shape
/// takes the place of the first of them if they are adjacent, else it comes first.
Tensor index(const Tensor& x, TensorIndices indices);
/// Writes `value`, broadcast and cast, to the locations that `indices` select; with `accumulate`
/// adds it, once for each time a location occurs.
const Tensor& index_put_(const Tensor& x, TensorIndices indices, const Tensor& value,
                         bool accumulate = false);
const Tensor& index_put_(const Tensor& x, TensorIndices indices, Scalar value);

}  // namespace tensora
