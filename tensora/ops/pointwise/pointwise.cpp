// Registers nothing: the rules that all functors share; their ops are generated.
#include "tensora/ops/pointwise/define_pointwise.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"

namespace tensora {
namespace {

using functors::Types;

Category category(DType dtype) { return dtype_info(dtype).category; }

// A plain C++ number counts by its category alone: 0.5 is "some float", not float64.
DType type_of_number(const Tensor& tensor) {
  if (!tensor.impl().wrapped_number) return tensor.dtype();
  if (tensor.is_complex()) return complex_dtype(default_dtype());
  return is_floating_point(tensor.dtype()) ? default_dtype() : tensor.dtype();
}

void check_types(const Infer& infer, Types types, DType dtype) {
  switch (types) {
    case Types::integral:
      return infer.check(category(dtype) <= Category::integer,
                         "expected integer or bool tensors, got ", dtype);
    case Types::integer:
      return infer.check(is_integral(dtype), "expected integer tensors, got ", dtype);
    case Types::floating_only:
      return infer.check(is_differentiable(dtype), "expected floating-point tensors, got ", dtype);
    case Types::number:
      return infer.check(dtype != kBool,
                         "bool tensors are not supported; cast them, or use a logical op");
    default:
      return;
  }
}

// The strides of the output, as in PyTorch: dense inputs of equal strides give those strides, and
// otherwise the dims keep the order in memory that they have in the inputs. A permuted tensor stays
// permuted, dense or not, and the loop stays linear. An input of another dtype counts as
// the copy that PyTorch would make of it; a condition is not cast.
Strides common_layout(const Infer& infer, const Shape& sizes, bool condition_first) {
  SmallVector<Strides, 4> patterns;
  bool alike = true;
  for (const Arg& input : infer.inputs) {
    const bool as_it_is = condition_first && patterns.empty();
    const Strides strides = as_it_is || input->dtype() == infer.compute_dtype
                                ? input->strides()
                                : kept_strides(input->sizes(), input->strides());
    patterns.push_back(broadcast_strides(input->sizes(), strides, sizes));
    alike &= input->sizes() == sizes && patterns[0] == patterns.back();
  }
  if (alike && is_dense(sizes, patterns[0])) return patterns[0];
  return dense_strides(sizes, {patterns.data(), patterns.size()});
}

// Whether the strides are those of a new tensor, those of dims of size 1 included: where shapes
// differ, PyTorch orders dims by them too.
bool is_row_major(const View& view) {
  int64_t expected = 1;
  for (int i = view.dim() - 1; i >= 0; --i) {
    if (view.strides[i] != expected) return false;
    expected *= std::max<int64_t>(view.sizes[i], 1);
  }
  return true;
}

}  // namespace

DType result_type(Args inputs) {
  // Per priority (dims, 0-dim, number): the promoted dtype seen so far.
  DType promoted[3];
  bool seen[3] = {};
  for (const Arg& input : inputs) {
    const int priority = input->impl().wrapped_number ? 2 : input->dim() == 0 ? 1 : 0;
    const DType dtype = type_of_number(*input);
    promoted[priority] = seen[priority] ? promote_types(promoted[priority], dtype) : dtype;
    seen[priority] = true;
  }
  bool any = false;
  DType result = DType::boolean;
  for (int priority = 0; priority < 3; ++priority) {
    if (!seen[priority]) continue;
    if (!any)
      result = promoted[priority];
    else if (category(result) == Category::floating && is_complex(promoted[priority]))
      result = promote_types(result, kComplex64);  // as wide as the floats
    else if (category(promoted[priority]) > category(result))
      result = promote_types(result, promoted[priority]);
    any = true;
  }
  return result;
}

void check_alpha(const Infer& infer, Scalar alpha) {
  infer.check(alpha.kind() != Scalar::Kind::boolean || infer.compute_dtype == kBool,
              "alpha must be a number for ", infer.compute_dtype, " tensors, got a bool");
  infer.check(!alpha.is_complex() || is_complex(infer.compute_dtype), "alpha must be real for ",
              infer.compute_dtype, " tensors");
  if (is_differentiable(infer.compute_dtype)) return;
  infer.check(!alpha.is_floating(), "alpha must be an integer for ", infer.compute_dtype,
              " tensors, got ", alpha.to<double>());
  fit_scalar(alpha, infer.compute_dtype, infer.op);
}

void check_bounds(const Infer& infer, Scalar min_val, Scalar max_val) {
  const double low = min_val.to<double>(), high = max_val.to<double>();
  check_as<ValueError>(!(low > high), infer.op, ": min_val must not be greater than max_val, got ",
                       low, " and ", high);
}

Tensor unwrap_number(const Tensor& operand) {
  if (!operand.impl().wrapped_number) return operand;
  return full({}, operand.item(), {.dtype = operand.is_complex() ? kComplex128 : kFloat64});
}

Tensor one_minus(const Tensor& x) { return x.is_complex() ? -(x - 1) : 1 - x; }

namespace {

// Whether all inputs have one dtype, that of a tensor, and one shape, and are contiguous.
bool are_alike(Args inputs) {
  const TensorImpl& first = inputs[0]->impl();
  bool alike = first.view.contiguous & !first.wrapped_number;
  for (size_t i = 1; i < inputs.size(); ++i) {
    const View& view = inputs[i]->view_of_data();
    alike &= view.contiguous & (view.dtype == first.view.dtype) && view.sizes == first.view.sizes;
  }
  return alike;
}

[[gnu::noinline]] void infer_unlike(Infer& infer, Types types, bool condition_first,
                                    bool real_result) {
  const Args operands = condition_first ? infer.inputs.subspan(1) : infer.inputs;
  if (condition_first)
    infer.check(infer[0].dtype() == kBool || infer[0].dtype() == kUInt8,
                "expected a condition of dtype bool or uint8, got ", infer[0].dtype());
  const Tensor& first = *operands[0];
  const Shape& first_sizes = infer[0].sizes();
  DType dtype = first.dtype();
  bool one_dtype = !first.impl().wrapped_number, one_shape = true, contiguous = true;
  for (const Arg& input : infer.inputs) {
    const View& view = input->view_of_data();
    one_shape &= &view.sizes == &first_sizes || view.sizes == first_sizes;
    contiguous &= view.contiguous;
  }
  for (const Arg& operand : operands) one_dtype &= operand->dtype() == dtype;
  if (!one_dtype) dtype = result_type(operands);

  if (types == Types::floating && !is_differentiable(dtype)) dtype = default_dtype();
  check_types(infer, types, dtype);
  infer.compute_dtype = dtype;
  const DType result = types == Types::predicate ? kBool : real_result ? real_dtype(dtype) : dtype;
  if (one_shape && contiguous) return infer.output(first_sizes, result);

  Shape sizes = first_sizes;
  for (const Arg& input : infer.inputs) {
    if (input->sizes() != sizes) sizes = broadcast_shapes(sizes, input->sizes(), infer.op);
    contiguous &= one_shape || is_row_major(input->view_of_data());
  }
  if (contiguous)
    infer.output(sizes, result);
  else
    infer.output(sizes, common_layout(infer, sizes, condition_first), result);
}

}  // namespace

void infer_pointwise(Infer& infer, Types types, bool condition_first, bool real_result) {
  // The common case of small tensors, where every nanosecond counts.
  if (types != Types::any || condition_first || real_result || !are_alike(infer.inputs))
    return infer_unlike(infer, types, condition_first, real_result);
  const View& first = infer[0].view_of_data();
  infer.compute_dtype = first.dtype;
  infer.output(first.sizes, first.dtype);
}

}  // namespace tensora
