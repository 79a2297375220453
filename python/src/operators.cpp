#include <algorithm>

#include "python/src/overrides.h"
#include "python/src/tensor_object.h"
#include "python/src/values.h"
#include "tensora/tensora.h"

// Python's operators on tensors: the shortest way from the interpreter to an op.

namespace tensora::python {
namespace {

/// An operand: a tensor, or a number that yields to tensors in type promotion.
class Operand {
 public:
  explicit Operand(PyObject* object) {
    if (is_tensor(object))
      tensor_ = &tensor_of(object);
    else if (PyFloat_Check(object) || PyLong_Check(object) || is_number(object))
      tensor_ = &(number_ = wrap_number(get<Scalar>(object)));
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  explicit operator bool() const { return tensor_ != nullptr; }
  const Tensor& operator*() const { return *tensor_; }

 private:
  const Tensor* tensor_ = nullptr;
  Tensor number_;
};

using T = const Tensor&;

template <class Op>
PyObject* call_binary(PyObject* a, PyObject* b, Op op) {
  return guarded([&]() -> PyObject* {
    const Operand left(a), right(b);
    if (!left || !right) Py_RETURN_NOTIMPLEMENTED;
    Tensor result;
    {
      const ReleaseGil free(worth_releasing(*left) || worth_releasing(*right));
      result = op(*left, *right);
    }
    return wrap(std::move(result));
  });
}
/// `method` is the op's name as a method, for a right operand of a class with __torch_function__:
/// Python asks only the left one.
template <class Op>
PyObject* call_inplace(PyObject* a, PyObject* b, const char* method, Op op) {
  if (is_tensor(b) && Py_TYPE(b) != tensor_type && Py_TYPE(a) == tensor_type && tensors_override())
    return PyObject_CallMethod(a, method, "O", b);
  return guarded([&]() -> PyObject* {
    const Operand right(b);
    if (!right) Py_RETURN_NOTIMPLEMENTED;
    {
      const Tensor& left = tensor_of(a);
      const ReleaseGil free(worth_releasing(left));
      op(left, *right);
    }
    return Py_NewRef(a);
  });
}
template <class Op>
PyObject* call_unary(PyObject* a, Op op) {
  return guarded([&] {
    Tensor result;
    {
      const ReleaseGil free(worth_releasing(tensor_of(a)));
      result = op(tensor_of(a));
    }
    return wrap(std::move(result));
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject*) {
  if (is_tensor(a) && !is_tensor(b) && is_number(b)) {  // a number has exponents of its own: x ** 2
    return guarded([&] {
      const Scalar exponent = get<Scalar>(b);
      return call_unary(a, [&](T x) { return pow(x, exponent); });
    });
  }
  return call_binary(a, b, [](T x, T y) { return pow(x, y); });
}
PyObject* power_into(PyObject* a, PyObject* b, PyObject*) {
  return call_inplace(a, b, "pow_", [](T x, T y) { pow_(x, y); });
}

// ---- from an op to the function that stands in the type's table: Op is a lambda without captures
// --

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}
template <class Op>
void* binary(Op) {
  return address(+[](PyObject* a, PyObject* b) { return call_binary(a, b, Op{}); });
}
template <size_t n>
struct Name {
  char text[n];
  consteval Name(const char (&name)[n]) { std::copy_n(name, n, text); }
};
template <Name method, class Op>
void* inplace(Op) {
  return address(+[](PyObject* a, PyObject* b) { return call_inplace(a, b, method.text, Op{}); });
}
template <class Op>
void* unary(Op) {
  return address(+[](PyObject* a) { return call_unary(a, Op{}); });
}

}  // namespace

PyObject* tensor_compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_EQ:
      return call_binary(a, b, [](T x, T y) { return eq(x, y); });
    case Py_NE:
      return call_binary(a, b, [](T x, T y) { return ne(x, y); });
    case Py_LT:
      return call_binary(a, b, [](T x, T y) { return lt(x, y); });
    case Py_LE:
      return call_binary(a, b, [](T x, T y) { return le(x, y); });
    case Py_GT:
      return call_binary(a, b, [](T x, T y) { return gt(x, y); });
    default:
      return call_binary(a, b, [](T x, T y) { return ge(x, y); });
  }
}

PyType_Slot tensor_number_slots[] = {
    {Py_nb_add, binary([](T a, T b) { return add(a, b); })},
    {Py_nb_subtract, binary([](T a, T b) { return sub(a, b); })},
    {Py_nb_multiply, binary([](T a, T b) { return mul(a, b); })},
    {Py_nb_true_divide, binary([](T a, T b) { return div(a, b); })},
    {Py_nb_floor_divide, binary([](T a, T b) { return floor_divide(a, b); })},
    {Py_nb_remainder, binary([](T a, T b) { return remainder(a, b); })},
    {Py_nb_and, binary([](T a, T b) { return bitwise_and(a, b); })},
    {Py_nb_or, binary([](T a, T b) { return bitwise_or(a, b); })},
    {Py_nb_xor, binary([](T a, T b) { return bitwise_xor(a, b); })},
    {Py_nb_lshift, binary([](T a, T b) { return bitwise_left_shift(a, b); })},
    {Py_nb_rshift, binary([](T a, T b) { return bitwise_right_shift(a, b); })},
    {Py_nb_matrix_multiply, binary([](T a, T b) { return matmul(a, b); })},
    {Py_nb_power, address(power)},
    {Py_nb_inplace_add, inplace<"add_">([](T a, T b) { add_(a, b); })},
    {Py_nb_inplace_subtract, inplace<"sub_">([](T a, T b) { sub_(a, b); })},
    {Py_nb_inplace_multiply, inplace<"mul_">([](T a, T b) { mul_(a, b); })},
    {Py_nb_inplace_true_divide, inplace<"div_">([](T a, T b) { div_(a, b); })},
    {Py_nb_inplace_floor_divide, inplace<"floor_divide_">([](T a, T b) { floor_divide_(a, b); })},
    {Py_nb_inplace_remainder, inplace<"remainder_">([](T a, T b) { remainder_(a, b); })},
    {Py_nb_inplace_and, inplace<"bitwise_and_">([](T a, T b) { bitwise_and_(a, b); })},
    {Py_nb_inplace_or, inplace<"bitwise_or_">([](T a, T b) { bitwise_or_(a, b); })},
    {Py_nb_inplace_xor, inplace<"bitwise_xor_">([](T a, T b) { bitwise_xor_(a, b); })},
    {Py_nb_inplace_lshift,
     inplace<"bitwise_left_shift_">([](T a, T b) { bitwise_left_shift_(a, b); })},
    {Py_nb_inplace_rshift,
     inplace<"bitwise_right_shift_">([](T a, T b) { bitwise_right_shift_(a, b); })},
    {Py_nb_inplace_power, address(power_into)},
    {Py_nb_negative, unary([](T a) { return neg(a); })},
    {Py_nb_positive, unary([](T a) { return a; })},
    {Py_nb_absolute, unary([](T a) { return abs(a); })},
    {Py_nb_invert, unary([](T a) { return bitwise_not(a); })},
    {0, nullptr}};

}  // namespace tensora::python
