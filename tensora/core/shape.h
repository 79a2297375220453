#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tensora/base/check.h"

namespace tensora {

inline constexpr int kMaxDims = 16;

/// Up to kMaxDims integers kept inline: sizes, strides, or a list of dims. Almost all tensors have
/// few dims, and every op copies shapes: only the first eight entries are initialised and copied
/// unconditionally.
class Shape {
 public:
  constexpr Shape() { clear_values(); }
  constexpr Shape(const Shape& other) { *this = other; }
  constexpr Shape& operator=(const Shape& other) {
    if (std::is_constant_evaluated()) {
      for (int i = 0; i < kMaxDims; ++i) values_[i] = other.values_[i];
    } else {
      // Of fixed length: a few vector moves. GCC makes a loop of eight scalar moves.
      __builtin_memmove(values_, other.values_, kFewDims * sizeof(int64_t));
      if (other.count_ > kFewDims) [[unlikely]]
        for (size_t i = kFewDims; i < other.count_; ++i) values_[i] = other.values_[i];
    }
    count_ = other.count_;
    return *this;
  }
  constexpr Shape(std::initializer_list<int64_t> values) : Shape() {
    require_fits(values.size());
    for (int64_t value : values) values_[count_++] = value;
  }
  /// A single number stands for a list of one: `sum(x, -1)`.
  template <std::integral Int>
    requires(!std::same_as<Int, bool>)
  constexpr Shape(Int value) : Shape() {
    values_[0] = static_cast<int64_t>(value);
    count_ = 1;
  }
  Shape(std::span<const int64_t> values) : Shape() {
    require_fits(values.size());
    for (int64_t value : values) values_[count_++] = value;
  }
  Shape(const std::vector<int64_t>& values)
      : Shape(std::span<const int64_t>(values.data(), values.size())) {}
  static Shape filled(int count, int64_t value) {
    Shape result;
    result.resize(count, value);
    return result;
  }

  constexpr int size() const { return static_cast<int>(count_); }
  constexpr bool empty() const { return count_ == 0; }
  constexpr int64_t* data() { return values_; }
  constexpr const int64_t* data() const { return values_; }
  constexpr int64_t* begin() { return values_; }
  constexpr int64_t* end() { return values_ + count_; }
  constexpr const int64_t* begin() const { return values_; }
  constexpr const int64_t* end() const { return values_ + count_; }
  constexpr int64_t& operator[](int i) {
    require_inside(i);
    return values_[i];
  }
  constexpr int64_t operator[](int i) const {
    require_inside(i);
    return values_[i];
  }
  constexpr int64_t back() const { return (*this)[size() - 1]; }
  operator std::span<const int64_t>() const { return {values_, count_}; }
  std::vector<int64_t> vec() const;

  constexpr void push_back(int64_t value) {
    require_fits(count_ + 1);
    values_[count_++] = value;
  }
  constexpr void resize(int count, int64_t fill = 0) {
    require_fits(static_cast<size_t>(count));
    while (count_ < static_cast<size_t>(count)) values_[count_++] = fill;
    count_ = static_cast<size_t>(count);
  }
  constexpr void insert(int position, int64_t value) {
    push_back(value);
    for (int i = size() - 1; i > position; --i) values_[i] = values_[i - 1];
    values_[position] = value;
  }
  constexpr void erase(int position) {
    for (int i = position; i + 1 < size(); ++i) values_[i] = values_[i + 1];
    --count_;
  }
  constexpr bool contains(int64_t value) const {
    for (int64_t item : *this)
      if (item == value) return true;
    return false;
  }

  constexpr bool operator==(const Shape& other) const {
    if (count_ != other.count_) return false;
    for (size_t i = 0; i < count_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

  /// The product of all entries; the number of elements of a tensor with these sizes. Throws where
  /// that does not fit into int64; if one of the sizes is 0, it is 0 whatever the others are.
  constexpr int64_t numel() const {
    int64_t product = 1;
    bool overflow = false;
    for (int64_t value : *this) overflow |= __builtin_mul_overflow(product, value, &product);
    if (overflow) [[unlikely]]
      return numel_after_overflow();
    return product;
  }

 private:
  static constexpr int kFewDims = 8;

  constexpr void clear_values() {
    for (int i = 0; i < kFewDims; ++i) values_[i] = 0;
    if (std::is_constant_evaluated())  // a constant has no uninitialised entries
      for (int i = kFewDims; i < kMaxDims; ++i) values_[i] = 0;
  }
  static constexpr void require_fits(size_t count) {
    check(count <= kMaxDims, "tensors have at most ", kMaxDims, " dimensions, got ", count);
  }
  // One comparison: a negative number becomes a huge unsigned one.
  constexpr void require_inside(int i) const {
    if (static_cast<size_t>(i) >= count_) [[unlikely]]
      fail_index(i);
  }
  [[noreturn, gnu::cold]] void fail_index(int i) const;
  [[gnu::cold]] int64_t numel_after_overflow() const;

  int64_t values_[kMaxDims];
  size_t count_ = 0;
};
using Strides = Shape;
using Dims = Shape;

/// "[2, 3]"
void append(std::string& out, const Shape& shape);
std::string to_string(const Shape& shape);

/// a + b, a * b; throw, naming `op`, where the result does not fit into int64.
int64_t add_sizes(int64_t a, int64_t b, std::string_view op);
int64_t multiply_sizes(int64_t a, int64_t b, std::string_view op);
/// One past the last element that a view reaches, counted from the start of its storage: `offset`
/// if it has no elements. Throws, naming `op`, where that does not fit into int64.
int64_t storage_extent(const Shape& sizes, const Strides& strides, int64_t offset,
                       std::string_view op);

/// Row-major strides.
Strides contiguous_strides(const Shape& sizes);
bool is_contiguous(const Shape& sizes, const Strides& strides);
/// The strides of a dense tensor of these sizes whose dims have the same order in memory as those
/// of `patterns`: for each two dims, the first pattern that orders them decides, as in PyTorch.
Strides dense_strides(const Shape& sizes, std::span<const Strides> patterns);
/// The strides of a copy that keeps the layout: the same strides if they are dense, else dense
/// strides with the same order of dims.
Strides kept_strides(const Shape& sizes, const Strides& strides);
/// True when the elements fill a contiguous block of memory without overlaps, in any order of dims.
bool is_dense(const Shape& sizes, const Strides& strides);
/// True when two different indices may have the same address (an expanded tensor, say).
bool may_overlap_itself(const Shape& sizes, const Strides& strides);

/// The common shape of broadcasting; throws, naming `op`, when there is none.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);
/// Strides that make a tensor of `sizes` look like `target`: 0 along the broadcast dims.
Strides broadcast_strides(const Shape& sizes, const Strides& strides, const Shape& target);
bool can_broadcast_to(const Shape& sizes, const Shape& target);

/// Maps -1 to the last of `count` dims, and so on; throws, naming `op`, when out of range. A 0-dim
/// tensor accepts 0 and -1, as in PyTorch.
int wrap_dim(int64_t dim, int count, std::string_view op);
/// The same for a list, which must not name a dim twice. Empty means all dims.
Dims wrap_dims(const Dims& dims, int count, std::string_view op);

/// Resolves one -1 in `sizes` so that the number of elements becomes `numel`.
Shape infer_size(const Shape& sizes, int64_t numel, std::string_view op);

}  // namespace tensora
