#pragma once

// Sizes with a number per spatial dim: `kernel_size(3)` means 3 for each of them.

#include <array>
#include <ostream>

#include "tensora/libtorch/names.h"

namespace torch {

namespace detail {
[[noreturn]] void throw_wrong_count(size_t expected, size_t given);
}

template <size_t D, class T = int64_t>
class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list)  // NOLINT: implicit
      : ExpandingArray(ArrayRef<T>(list)) {}
  ExpandingArray(std::vector<T> list) : ExpandingArray(ArrayRef<T>(list)) {}  // NOLINT: implicit
  ExpandingArray(ArrayRef<T> values) {                                        // NOLINT: implicit
    if (values.size() != D) detail::throw_wrong_count(D, values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  ExpandingArray(const tensora::Shape& values)  // NOLINT: implicit
    requires std::same_as<T, int64_t>
      : ExpandingArray(ArrayRef<T>(values)) {}
  ExpandingArray(T single) { values_.fill(single); }                   // NOLINT: implicit
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}  // NOLINT: implicit

  std::array<T, D>& operator*() { return values_; }
  const std::array<T, D>& operator*() const { return values_; }
  std::array<T, D>* operator->() { return &values_; }
  const std::array<T, D>* operator->() const { return &values_; }
  operator ArrayRef<T>() const { return values_; }  // NOLINT: implicit
  operator tensora::Shape() const                   // NOLINT: implicit
    requires std::same_as<T, int64_t>
  {
    return std::span<const int64_t>(values_);
  }
  size_t size() const { return D; }

 private:
  std::array<T, D> values_;
};

template <size_t D, class T>
std::ostream& operator<<(std::ostream& out, const ExpandingArray<D, T>& array) {
  if (D == 1) return out << (*array)[0];
  return out << ArrayRef<T>(*array);
}

/// The same where a dim may keep the size that it has: `{3, torch::nullopt}`.
template <size_t D>
class ExpandingArrayWithOptionalElem : public ExpandingArray<D, std::optional<int64_t>> {
 public:
  using Base = ExpandingArray<D, std::optional<int64_t>>;
  using Base::Base;
  ExpandingArrayWithOptionalElem(int64_t single)  // NOLINT: implicit
      : Base(std::optional<int64_t>(single)) {}
  ExpandingArrayWithOptionalElem(std::initializer_list<int64_t> list)  // NOLINT: implicit
      : Base(std::vector<std::optional<int64_t>>(list.begin(), list.end())) {}
  ExpandingArrayWithOptionalElem(const std::vector<int64_t>& list)  // NOLINT: implicit
      : Base(std::vector<std::optional<int64_t>>(list.begin(), list.end())) {}

  /// The sizes for `input`, whose last dims these are.
  tensora::Shape for_input(const Tensor& input) const {
    tensora::Shape sizes;
    for (size_t i = 0; i < D; ++i) {
      const auto& size = (**this)[i];
      sizes.push_back(size ? *size : input.size(static_cast<int64_t>(i) - static_cast<int64_t>(D)));
    }
    return sizes;
  }
};

template <size_t D>
std::ostream& operator<<(std::ostream& out, const ExpandingArrayWithOptionalElem<D>& array) {
  if (D > 1) out << "[";
  for (size_t i = 0; i < D; ++i) {
    out << (i ? ", " : "");
    const auto& size = (*array)[i];
    size ? out << *size : out << "None";
  }
  return D > 1 ? out << "]" : out;
}

}  // namespace torch
