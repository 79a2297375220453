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

template <auto op>
PyObject* binary(PyObject* a, PyObject* b) {
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
template <auto op>
PyObject* inplace(PyObject* a, PyObject* b) {
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
template <auto op>
PyObject* unary(PyObject* a) {
  return guarded([&] {
    Tensor result;
    {
      const ReleaseGil free(worth_releasing(tensor_of(a)));
      result = op(tensor_of(a));
    }
    return wrap(std::move(result));
  });
}

using T = const Tensor&;
constexpr auto add_two = [](T a, T b) { return add(a, b); };
constexpr auto sub_two = [](T a, T b) { return sub(a, b); };
constexpr auto mul_two = [](T a, T b) { return mul(a, b); };
constexpr auto div_two = [](T a, T b) { return div(a, b); };
constexpr auto floor_two = [](T a, T b) { return floor_divide(a, b); };
constexpr auto mod_two = [](T a, T b) { return remainder(a, b); };
constexpr auto and_two = [](T a, T b) { return bitwise_and(a, b); };
constexpr auto or_two = [](T a, T b) { return bitwise_or(a, b); };
constexpr auto xor_two = [](T a, T b) { return bitwise_xor(a, b); };
constexpr auto left_two = [](T a, T b) { return bitwise_left_shift(a, b); };
constexpr auto right_two = [](T a, T b) { return bitwise_right_shift(a, b); };
constexpr auto product = [](T a, T b) { return matmul(a, b); };
constexpr auto add_into = [](T a, T b) { add_(a, b); };
constexpr auto sub_into = [](T a, T b) { sub_(a, b); };
constexpr auto mul_into = [](T a, T b) { mul_(a, b); };
constexpr auto div_into = [](T a, T b) { div_(a, b); };
constexpr auto floor_into = [](T a, T b) { floor_divide_(a, b); };
constexpr auto mod_into = [](T a, T b) { remainder_(a, b); };
constexpr auto and_into = [](T a, T b) { bitwise_and_(a, b); };
constexpr auto or_into = [](T a, T b) { bitwise_or_(a, b); };
constexpr auto xor_into = [](T a, T b) { bitwise_xor_(a, b); };
constexpr auto left_into = [](T a, T b) { bitwise_left_shift_(a, b); };
constexpr auto right_into = [](T a, T b) { bitwise_right_shift_(a, b); };
constexpr auto negated = [](T a) { return neg(a); };
constexpr auto positive = [](T a) { return a; };
constexpr auto magnitude = [](T a) { return abs(a); };
constexpr auto inverted = [](T a) { return bitwise_not(a); };

PyObject* power(PyObject* a, PyObject* b, PyObject*) {
  constexpr auto power_two = [](T x, T y) { return pow(x, y); };
  if (is_tensor(a) && !is_tensor(b) && is_number(b))  // a number has exponents of its own: x ** 2
    return guarded([&] {
      const Scalar exponent = get<Scalar>(b);
      Tensor result;
      {
        const ReleaseGil free(worth_releasing(tensor_of(a)));
        result = pow(tensor_of(a), exponent);
      }
      return wrap(std::move(result));
    });
  return binary<power_two>(a, b);
}
PyObject* power_into(PyObject* a, PyObject* b, PyObject*) {
  constexpr auto power_two = [](T x, T y) { pow_(x, y); };
  return inplace<power_two>(a, b);
}

constexpr auto eq_two = [](T a, T b) { return eq(a, b); };
constexpr auto ne_two = [](T a, T b) { return ne(a, b); };
constexpr auto lt_two = [](T a, T b) { return lt(a, b); };
constexpr auto le_two = [](T a, T b) { return le(a, b); };
constexpr auto gt_two = [](T a, T b) { return gt(a, b); };
constexpr auto ge_two = [](T a, T b) { return ge(a, b); };

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyObject* tensor_compare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_EQ:
      return binary<eq_two>(a, b);
    case Py_NE:
      return binary<ne_two>(a, b);
    case Py_LT:
      return binary<lt_two>(a, b);
    case Py_LE:
      return binary<le_two>(a, b);
    case Py_GT:
      return binary<gt_two>(a, b);
    default:
      return binary<ge_two>(a, b);
  }
}

PyType_Slot tensor_number_slots[] = {{Py_nb_add, slot(binary<add_two>)},
                                     {Py_nb_subtract, slot(binary<sub_two>)},
                                     {Py_nb_multiply, slot(binary<mul_two>)},
                                     {Py_nb_true_divide, slot(binary<div_two>)},
                                     {Py_nb_floor_divide, slot(binary<floor_two>)},
                                     {Py_nb_remainder, slot(binary<mod_two>)},
                                     {Py_nb_power, slot(power)},
                                     {Py_nb_matrix_multiply, slot(binary<product>)},
                                     {Py_nb_and, slot(binary<and_two>)},
                                     {Py_nb_or, slot(binary<or_two>)},
                                     {Py_nb_xor, slot(binary<xor_two>)},
                                     {Py_nb_lshift, slot(binary<left_two>)},
                                     {Py_nb_rshift, slot(binary<right_two>)},
                                     {Py_nb_inplace_add, slot(inplace<add_into>)},
                                     {Py_nb_inplace_subtract, slot(inplace<sub_into>)},
                                     {Py_nb_inplace_multiply, slot(inplace<mul_into>)},
                                     {Py_nb_inplace_true_divide, slot(inplace<div_into>)},
                                     {Py_nb_inplace_floor_divide, slot(inplace<floor_into>)},
                                     {Py_nb_inplace_remainder, slot(inplace<mod_into>)},
                                     {Py_nb_inplace_power, slot(power_into)},
                                     {Py_nb_inplace_and, slot(inplace<and_into>)},
                                     {Py_nb_inplace_or, slot(inplace<or_into>)},
                                     {Py_nb_inplace_xor, slot(inplace<xor_into>)},
                                     {Py_nb_inplace_lshift, slot(inplace<left_into>)},
                                     {Py_nb_inplace_rshift, slot(inplace<right_into>)},
                                     {Py_nb_negative, slot(unary<negated>)},
                                     {Py_nb_positive, slot(unary<positive>)},
                                     {Py_nb_absolute, slot(unary<magnitude>)},
                                     {Py_nb_invert, slot(unary<inverted>)},
                                     {0, nullptr}};

}  // namespace tensora::python
