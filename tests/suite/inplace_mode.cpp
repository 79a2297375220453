// The `inplace` mode: the in-place form against the out-of-place one.
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

// PyTorch's rule: a result may lose precision, but not change its category downwards.
bool can_store(DType result, DType target) {
  const auto category = [](DType dtype) { return dtype_info(dtype).category; };
  return category(result) <= category(target);
}

template <class Body>
bool throws_error(Body&& body) {
  try {
    body();
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return true;
  }
  return false;
}

void check_layout(const Check& check, const ArrayList& values, const Tensor& result,
                  const NamedLayout& layout) {
  const Inputs inputs(check, values, [&](const Shape& sizes, size_t i) {
    return i == 0 ? layout.of(sizes) : contiguous_layout(sizes);
  });
  const uint32_t version = inputs[0].version();
  run_inplace(check, inputs.tensors());
  require(inputs[0].version() > version, layout.name, ": the version counter did not move");
  inputs.placed(0).require_guards_intact(layout.name);
  for (size_t i = 1; i < values.size(); ++i)
    inputs.placed(i).require_unchanged(concat("input ", i));
  Array expected = read(result);
  const DType dtype = inputs[0].dtype();
  for (double& value : expected.values) value = rounded(value, dtype);
  require_close(read(inputs[0]), expected, tolerance_of(dtype, check.sample.tolerance),
                layout.name);
}

void check_on_leaf(const Check& check, const ArrayList& values) {
  const Inputs inputs(check, values);
  inputs[0].requires_grad_();
  require(throws_error([&] { run_inplace(check, inputs.tensors()); }),
          "writing to a leaf that requires grad must throw");
  inputs.require_unchanged();
  const no_grad silent;
  run_inplace(check, inputs.tensors());  // allowed where nothing is recorded
}

// The gradients through the in-place form, applied to an intermediate result, are those of the
// out-of-place form.
void check_gradient(const Check& check, const ArrayList& values, bool through_view) {
  std::vector<Tensor> leaves[2];
  std::vector<Array> grads[2];
  for (int form = 0; form < 2; ++form) {
    const Inputs inputs(check, values);
    std::vector<Tensor> operands(inputs.tensors().begin(), inputs.tensors().end());
    std::vector<Tensor>& wanted = leaves[form];
    for (size_t i = 0; i < operands.size(); ++i)
      if (!check.sample.inputs[i].dtype) wanted.push_back(operands[i].requires_grad_());
    operands[0] = clone(operands[0]);
    if (through_view)
      operands[0] = as_strided(operands[0], operands[0].sizes(), operands[0].strides());
    Tensor result = operands[0];
    if (form == 0)
      result = run(check, operands)[0];
    else
      run_inplace(check, operands);
    Numbers numbers(seed_of(check, 201));
    const Array weights = draw_weights(result.sizes(), numbers);
    const Placed seed(weights, result.dtype(), contiguous_layout(result.sizes()),
                      check.setting.device);
    for (const Tensor& grad :
         grad({&result, 1}, wanted, {&seed.tensor(), 1}, {.allow_unused = true}))
      grads[form].push_back(grad.defined() ? read(grad) : Array());
  }
  for (size_t k = 0; k < grads[0].size(); ++k) {
    const Array zero(leaves[0][k].sizes());
    const auto filled = [&](const Array& grad) { return grad.values.empty() ? zero : grad; };
    require_close(filled(grads[1][k]), filled(grads[0][k]),
                  tolerance_of(kFloat64, check.sample.tolerance),
                  concat("gradient ", k, through_view ? " of writing to a view" : " in place"));
  }
}

bool differentiable(const Check& check) {
  return check.dtype == kFloat64 && !check.sample.opt_out.contains(Mode::grad) &&
         !check.sample.inputs[0].dtype;
}

}  // namespace

void check_inplace_form(const Check& check) {
  const ArrayList values = draw_inputs(check);
  const Inputs plain(check, values);
  const Out outputs = run(check, plain.tensors());
  const Tensor& target = plain[0];
  if (outputs[0].sizes() != target.sizes() || !can_store(outputs[0].dtype(), target.dtype())) {
    require(throws_error([&] { run_inplace(check, plain.tensors()); }), "a result of ",
            outputs[0].dtype(), " ", outputs[0].sizes(), " cannot be stored in ", target.dtype(),
            " ", target.sizes(), ", yet nothing was thrown");
    plain.require_unchanged();
    return;
  }
  check_layout(check, values, outputs[0], {"contiguous", contiguous_layout});
  for (const NamedLayout& layout : strided_layouts())
    check_layout(check, values, outputs[0], layout);
  if (target.is_floating_point()) check_on_leaf(check, values);
  if (!differentiable(check)) return;
  check_gradient(check, values, false);
  check_gradient(check, values, true);
}

}  // namespace tensora::suite
