#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// A number, a list of numbers, a list of such lists…: what `tensor({{1, 2}, {3, 4}})` is given.
class NestedList {
 public:
  NestedList(Scalar value) : values_{value}, category_(value.kind()) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  NestedList(T value) : NestedList(Scalar(value)) {}
  template <class T>
  NestedList(Complex<T> value) : NestedList(Scalar(value)) {}
  NestedList(Half value) : NestedList(Scalar(static_cast<float>(value))) {}
  NestedList(BFloat16 value) : NestedList(Scalar(static_cast<float>(value))) {}
  NestedList(std::initializer_list<NestedList> items) {
    for (const NestedList& item : items) add(item);
    finish();
  }
  template <class T>
  NestedList(const std::vector<T>& items) {
    for (const auto& item : items) add(NestedList(static_cast<T>(item)));
    finish();
  }

  /// Throws if the lists are ragged.
  const Shape& sizes() const;
  const std::vector<Scalar>& values() const { return values_; }
  /// bool if all numbers are, an integer if none is floating, complex if one is, else floating.
  Scalar::Kind category() const { return category_; }

 private:
  void add(const NestedList& item);
  void finish();

  int64_t count_ = -1;  // of items seen so far; -1: this is a number
  Shape sizes_;         // of one item until finish()
  std::vector<Scalar> values_;
  Scalar::Kind category_ = Scalar::Kind::floating;
  // Where the lists differ in length first: found while the list is built from inside out, told
  // when the whole list is there to count dims from.
  int ragged_dim_ = -1;
  int64_t ragged_expected_ = 0, ragged_got_ = 0;
};

/// A tensor of the given numbers: `tensor({{1, 2}, {3, 4}})`, `tensor(0.5)`. Without a dtype in the
/// options, bools give bool, integers int64, anything with a floating-point number the
/// default dtype, and with a complex one the complex dtype of its precision.
Tensor tensor(const NestedList& data, const TensorOptions& options = {});

namespace detail {
Tensor tensor_from(const void* data, int64_t count, DType dtype, const TensorOptions& options);
}

/// The same for a flat vector, copied in one go.
template <class T>
  requires(std::is_arithmetic_v<T> || is_complex_type<T>) && (!std::is_same_v<T, bool>) &&
          requires { DTypeOf<T>::value; }
Tensor tensor(const std::vector<T>& data, const TensorOptions& options = {}) {
  return detail::tensor_from(data.data(), static_cast<int64_t>(data.size()), dtype_of<T>, options);
}

/// The elements in row-major order, converted to `T` (any C++ type of a dtype).
template <class T>
std::vector<T> to_vector(const Tensor& tensor);

/// One element as a number; negative indices count from the end.
Scalar at(const Tensor& self, const Shape& index);

}  // namespace tensora
