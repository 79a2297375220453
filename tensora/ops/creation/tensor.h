#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// A number, a list of numbers, a list of such lists…: what `tensor({{1, 2}, {3, 4}})` is given.
class NestedList {
 public:
  NestedList(Scalar value) : values_{value}, category_(value.kind()) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  NestedList(T value) : NestedList(Scalar(value)) {
    // The types that LibTorch keeps; int, int64_t, float and double stand for a literal.
    if constexpr (sizeof(T) < 4 && requires { DTypeOf<T>::value; } && !std::same_as<T, bool>)
      own_dtype_ = dtype_of<T>;
  }
  template <class T>
  NestedList(Complex<T> value) : NestedList(Scalar(value)) {}
  NestedList(Half value) : NestedList(Scalar(static_cast<float>(value))) { own_dtype_ = kFloat16; }
  NestedList(BFloat16 value) : NestedList(Scalar(static_cast<float>(value))) {
    own_dtype_ = kBFloat16;
  }
  NestedList(std::initializer_list<NestedList> items) {
    for (const NestedList& item : items) add(item);
    finish();
  }
  /// A vector, array, span, … of numbers or of such lists.
  template <class List>
    requires requires(const List& list) {
      list.begin() != list.end();
      typename List::value_type;
      requires !std::is_base_of_v<Tensor, List>;
    }
  NestedList(const List& items) {
    using Item = std::remove_cv_t<typename List::value_type>;
    for (const auto& item : items) add(NestedList(static_cast<const Item&>(item)));
    finish();
  }

  /// Throws if the lists are ragged.
  const Shape& sizes() const;
  const std::vector<Scalar>& values() const { return values_; }
  /// bool if all numbers are, an integer if none is floating, complex if one is, else floating.
  Scalar::Kind category() const { return category_; }
  /// The dtype of the numbers' C++ type, if all have one type of fewer than 32 bits; not bool.
  std::optional<DType> own_dtype() const { return own_dtype_; }

 private:
  void add(const NestedList& item);
  void finish();

  int64_t count_ = -1;  // of items seen so far; -1: this is a number
  Shape sizes_;         // of one item until finish()
  std::vector<Scalar> values_;
  Scalar::Kind category_ = Scalar::Kind::floating;
  std::optional<DType> own_dtype_;
  // Where the lists first differ in length: found while the list is built from the inside out, and
  // reported when the whole list is complete and the dim is known.
  int ragged_dim_ = -1;
  int64_t ragged_expected_ = 0, ragged_got_ = 0;
};

/// A tensor of the given numbers: `tensor({{1, 2}, {3, 4}})`, `tensor(0.5)`. Without a dtype in the
/// options, bools give bool, integers int64, anything with a floating-point number the
/// default dtype, and with a complex one the complex dtype of its precision. Numbers that are all
/// of one C++ type of 8 or 16 bits keep it: `tensor(uint8_t{3})` is uint8.
Tensor tensor(const NestedList& data, const TensorOptions& options = {});

namespace detail {
Tensor tensor_from(const void* data, int64_t count, DType dtype, const TensorOptions& options);
}

/// Contiguous elements of a dtype's C++ type: a vector, array, span, C array, ….
template <class List>
concept ElementList = requires(const List& list) {
  std::size(list);
  DTypeOf<std::remove_cvref_t<decltype(*std::data(list))>>::value;
};
/// The same for such a list, copied in one go. Without a dtype in the options, int and int64_t give
/// int64, float and double the default dtype, and other types their own.
template <ElementList List>
Tensor tensor(const List& data, const TensorOptions& options = {}) {
  using T = std::remove_cvref_t<decltype(*std::data(data))>;
  return detail::tensor_from(std::data(data), static_cast<int64_t>(std::size(data)), dtype_of<T>,
                             options);
}
template <ElementList List, SingleOption Option>
Tensor tensor(const List& data, const Option& option) {
  return tensor(data, as_options(option));
}

/// The elements in row-major order, converted to `T` (any C++ type of a dtype).
template <class T>
std::vector<T> to_vector(const Tensor& tensor);

/// One element as a number; negative indices count from the end.
Scalar at(const Tensor& self, const Shape& index);

}  // namespace tensora
