#include "tensora/ops/optim/multi_tensor.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/optim/list_reference.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/sparse/sparse_parts.h"

namespace tensora {
namespace {

// The strides of dims of one element have no meaning.
bool laid_out_alike(const Tensor& a, const Tensor& b) {
  for (int i = 0; i < a.dim(); ++i)
    if (a.sizes()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

void check_like(const Infer& infer, const Tensor& param, const Tensor& other, const char* what) {
  infer.check(other.is_floating_point(), "expected floating-point ", what, ", got ", other.dtype());
  infer.check(other.sizes() == param.sizes(), "expected ", what, " of shape ", param.sizes(),
              ", got ", other.sizes());
  infer.check(laid_out_alike(other, param), "expected ", what, " laid out as the parameter, ",
              param.strides(), ", got ", other.strides());
}

}  // namespace

void infer_list(Infer& infer, const ListLayout& layout) {
  infer.check(layout.count >= 0 && layout.states >= 0 && layout.states <= 3 &&
                  infer.inputs.size() == layout.inputs(),
              "got ", infer.inputs.size(), " tensors where ", layout.inputs(), " are described");
  for (int64_t i = 0; i < layout.count; ++i) {
    const Tensor& param = infer[layout.param(i)];
    infer.check(param.is_floating_point(), "expected floating-point parameters, got ",
                param.dtype());
    infer.check(is_dense(param.sizes(), param.strides()),
                "parameters must be dense (without gaps), got shape ", param.sizes(),
                " and strides ", param.strides());
    check_like(infer, param, infer[layout.grad(i)], "gradients");
    for (int k = 0; k < layout.states; ++k)
      check_like(infer, param, infer[layout.state(k, i)], "states");
    if (!layout.masters) continue;
    check_like(infer, param, infer[layout.master(i)], "master weights");
    infer.check(infer[layout.master(i)].dtype() == kFloat32 && param.dtype() != kFloat64,
                "master weights are float32 beside 16- or 32-bit parameters, got ",
                infer[layout.master(i)].dtype(), " beside ", param.dtype());
  }
  for (size_t i = layout.step(); i < layout.inputs(); ++i) {
    const DType dtype = layout.rated && i == layout.rate() ? kFloat64 : kFloat32;
    infer.check(infer[i].dtype() == dtype && infer[i].numel() == 1,
                "the step, scale, flag and product are one float32 number each, and the learning "
                "rate is one of float64; got ",
                infer[i].dtype(), " of shape ", infer[i].sizes());
  }
  for (int64_t i = 0; i < layout.outputs(); ++i) {
    const Tensor& written = infer[static_cast<size_t>(i)];
    infer.output(written.sizes(), written.strides(), written.dtype());
  }
}

namespace {

Tensors adam_reference(Args in, const AdamListAttrs& a) {
  const ListLayout& layout = a.layout;
  Tensors out(static_cast<size_t>(layout.outputs()));
  for (int64_t i = 0; i < layout.count; ++i) {
    Stepped s(in, layout, i, a.maximize);
    const SteppedNumbers n(in, layout, s.param, static_cast<double>(a.step), a.lr, 1);
    const DType wide = s.param.dtype();
    const Tensor grad = a.decoupled ? s.grad : s.grad + s.param * a.weight_decay;
    s.state[0] = s.state[0] + (grad - s.state[0]) * (1 - a.beta1);
    s.state[1] = s.state[1] * a.beta2 + grad * grad * (1 - a.beta2);
    if (a.amsgrad) s.state[2] = maximum(s.state[2], s.state[1]);
    const Tensor root =
        sqrt(a.amsgrad ? s.state[2] : s.state[1]) / to(sqrt(n.correction(a.beta2)), wide) + a.eps;
    const Tensor kept = a.decoupled ? s.param * to(1 - n.lr * a.weight_decay, wide) : s.param;
    s.store(out, in, layout, i, kept - s.state[0] * to(n.lr / n.correction(a.beta1), wide) / root);
  }
  return out;
}

Tensors sgd_reference(Args in, const SgdListAttrs& a) {
  const ListLayout& layout = a.layout;
  Tensors out(static_cast<size_t>(layout.outputs()));
  for (int64_t i = 0; i < layout.count; ++i) {
    Stepped s(in, layout, i, a.maximize);
    const SteppedNumbers n(in, layout, s.param, 1, a.lr, 1);
    Tensor grad = s.grad + s.param * a.weight_decay;
    if (a.momentum != 0) {
      s.state[0] = a.first ? grad : s.state[0] * a.momentum + grad * (1 - a.dampening);
      grad = a.nesterov ? grad + s.state[0] * a.momentum : s.state[0];
    }
    s.store(out, in, layout, i, s.param - grad * to(n.lr, grad.dtype()));
  }
  return out;
}

DType widest(Args tensors) {
  DType result = kFloat32;
  for (const Arg& tensor : tensors) result = promote_types(result, tensor->dtype());
  return result;
}

void check_list(const Infer& infer, Args tensors) {
  for (const Arg& tensor : tensors)
    infer.check(tensor->is_floating_point(), "expected floating-point tensors, got ",
                tensor->dtype());
}

Args clipped(Args in, const ListClipAttrs& attrs) {
  return attrs.by_norm ? in.first(in.size() - 1) : in;
}

Tensors clip_reference(Args in, const ListClipAttrs& attrs) {
  Tensors out;
  for (const Arg& tensor : clipped(in, attrs)) {
    Tensor fresh;
    if (attrs.by_norm) {
      const Tensor factor = clamp_max(attrs.limit / (*in[in.size() - 1] + 1e-6), 1);
      fresh = to(to(*tensor, factor.dtype()) * factor, tensor->dtype());
    } else {
      fresh = clamp(*tensor, -attrs.limit, attrs.limit);
    }
    Tensor result = empty_strided(tensor->sizes(), tensor->strides(),
                                  {.dtype = tensor->dtype(), .device = tensor->device()});
    copy_(result, fresh);
    out.push_back(result);
  }
  return out;
}

}  // namespace

constinit OpDef<AdamListAttrs> adam_list_op = define(Op<AdamListAttrs>{
    .name = "adam_list",
    .inputs = {"tensors..."},
    .infer =
        [](Infer& infer, const AdamListAttrs& attrs) {
          infer.check(attrs.layout.states == (attrs.amsgrad ? 3 : 2), "Adam has ",
                      attrs.amsgrad ? 3 : 2, " states, got ", attrs.layout.states);
          infer.check(attrs.step >= 1, "steps are counted from 1, got ", attrs.step);
          infer_list(infer, attrs.layout);
        },
    .reference = adam_reference,
    .gradient = Gradient::not_differentiable,
});
constinit OpDef<SgdListAttrs> sgd_list_op = define(Op<SgdListAttrs>{
    .name = "sgd_list",
    .inputs = {"tensors..."},
    .infer =
        [](Infer& infer, const SgdListAttrs& attrs) {
          infer.check(attrs.layout.states == (attrs.momentum != 0), "expected ",
                      attrs.momentum != 0, " states, got ", attrs.layout.states);
          infer.check(!attrs.nesterov || (attrs.momentum > 0 && attrs.dampening == 0),
                      "nesterov needs a momentum and no dampening, got ", attrs.momentum, " and ",
                      attrs.dampening);
          infer_list(infer, attrs.layout);
        },
    .reference = sgd_reference,
    .gradient = Gradient::not_differentiable,
});
constinit OpDef<ListNormAttrs> list_norm_op = define(Op<ListNormAttrs>{
    .name = "list_norm",
    .inputs = {"tensors..."},
    .infer =
        [](Infer& infer, const ListNormAttrs&) {
          check_list(infer, infer.inputs);
          infer.output({}, widest(infer.inputs));
        },
    .reference =
        [](Args in, const ListNormAttrs& attrs) {
          const DType wide = widest(in);
          std::vector<Tensor> norms;
          for (const Arg& tensor : in) norms.push_back(norm(to(*tensor, wide), attrs.p));
          return Tensors{norm(stack(norms), attrs.p)};
        },
    .gradient = Gradient::by_reference,
});
constinit OpDef<ListClipAttrs> list_clip_op = define(Op<ListClipAttrs>{
    .name = "list_clip",
    .inputs = {"tensors..."},
    .infer =
        [](Infer& infer, const ListClipAttrs& attrs) {
          infer.check(!attrs.by_norm || !infer.inputs.empty(), "the norm is missing");
          const Args tensors = clipped(infer.inputs, attrs);
          infer.check(!tensors.empty(), "expected at least one tensor");
          const int64_t norms = attrs.by_norm ? infer[infer.inputs.size() - 1].numel() : 1;
          infer.check(norms == 1, "the norm must be one number, got ", norms);
          check_list(infer, infer.inputs);
          for (const Arg& tensor : tensors) {
            infer.check(is_dense(tensor->sizes(), tensor->strides()),
                        "tensors must be dense (without gaps), got shape ", tensor->sizes(),
                        " and strides ", tensor->strides());
            infer.output(tensor->sizes(), tensor->strides(), tensor->dtype());
          }
        },
    .reference = clip_reference,
    .gradient = Gradient::not_differentiable,
});

void register_multi_tensor(OpRegistry& registry) {
  registry.add(adam_list_op);
  registry.add(sgd_list_op);
  registry.add(list_norm_op);
  registry.add(list_clip_op);
}

namespace {

// Collects the inputs of a step; holds copies of gradients that are laid out otherwise.
class StepInputs {
 public:
  StepInputs(const ListStep& step, ListLayout& layout) : step_(step) {
    layout = {.count = static_cast<int64_t>(step.params.size()),
              .states = static_cast<int>(step.states.size()),
              .masters = !step.masters.empty()};
    add(step.params, "params");
    for (size_t k = 0; k < step.states.size(); ++k) add(step.states[k], step.state_names[k]);
    if (layout.masters) add(step.masters, "masters");
    check(step.grads.size() == step.params.size(), step.op, ": expected ", step.params.size(),
          " grads, got ", step.grads.size());
    copies_.reserve(step.grads.size());
    for (size_t i = 0; i < step.grads.size(); ++i)
      inputs_.emplace_back(fitting(step.params[i], step.grads[i]));
    layout.counted = add_number(step.step);
    layout.scaled = add_number(step.grad_scale);
    layout.guarded = add_number(step.found_inf);
    layout.carried = add_number(step.product);
    layout.rated = add_number(step.lr);
  }
  Args args() const { return {inputs_.data(), inputs_.size()}; }

 private:
  void add(std::span<const Tensor> tensors, const char* what) {
    check(tensors.size() == step_.params.size(), step_.op, ": expected ", step_.params.size(), " ",
          what, ", got ", tensors.size());
    for (const Tensor& tensor : tensors) inputs_.emplace_back(tensor);
  }
  bool add_number(const Tensor* number) {
    if (!number || !number->defined()) return false;
    inputs_.emplace_back(*number);
    return true;
  }
  const Tensor& fitting(const Tensor& param, const Tensor& grad) {
    check(grad.defined(), step_.op, ": a gradient is undefined");
    if (grad.sizes() != param.sizes() || laid_out_alike(grad, param)) return grad;
    Tensor& copy = copies_.emplace_back(empty_strided(
        param.sizes(), param.strides(), {.dtype = grad.dtype(), .device = grad.device()}));
    copy_(copy, grad);
    return copy;
  }
  const ListStep& step_;
  std::vector<Arg> inputs_;
  std::vector<Tensor> copies_;
};

template <class Attrs>
void run(const ListStep& step, const OpDef<Attrs>& op, Attrs& attrs) {
  if (step.params.empty()) return;
  const no_grad silent;
  const StepInputs inputs(step, attrs.layout);
  called_as(step.op, [&] { detail::apply_inplace(op, inputs.args(), &attrs); });
}

constexpr const char* kAdamStates[] = {"exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"};
constexpr const char* kSgdStates[] = {"momentum_buffers"};

ListStep list_step(std::string_view op, std::span<const Tensor> params,
                   std::span<const Tensor> grads, std::span<const std::span<const Tensor>> states,
                   std::span<const char* const> names, const FusedExtras& extras) {
  return {op,
          params,
          grads,
          states,
          names,
          extras.masters,
          &extras.state_step,
          &extras.grad_scale,
          &extras.found_inf,
          nullptr,
          nullptr};
}

void adam_step(std::string_view op, std::span<const Tensor> params, std::span<const Tensor> grads,
               std::span<const Tensor> exp_avgs, std::span<const Tensor> exp_avg_sqs,
               std::span<const Tensor> max_exp_avg_sqs, const FusedAdamOptions& o,
               const FusedExtras& extras, bool decoupled) {
  const std::span<const Tensor> states[] = {exp_avgs, exp_avg_sqs, max_exp_avg_sqs};
  const size_t count = o.amsgrad ? 3 : 2;
  run_step(list_step(op, params, grads, {states, count}, {kAdamStates, count}, extras),
           AdamListAttrs{{},
                         o.lr,
                         o.beta1,
                         o.beta2,
                         o.eps,
                         o.weight_decay,
                         o.step,
                         decoupled,
                         o.amsgrad,
                         o.maximize});
}

// Of a sparse gradient, the values: of equal indices the sum counts.
std::vector<Tensor> gradients_of(std::span<const Tensor> parameters) {
  std::vector<Tensor> grads;
  for (const Tensor& parameter : parameters) {
    Tensor grad = parameter.grad();
    if (is_sparse(grad)) {
      parameter.set_grad(coalesced(grad));
      grad = sparse_parts(parameter.grad())->values;
    }
    if (grad.defined()) grads.push_back(std::move(grad));
  }
  return grads;
}

bool is_dense_list(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    if (!is_dense(tensor.sizes(), tensor.strides())) return false;
  return true;
}

void clip(std::span<const Tensor> grads, const Tensor& norm, const ListClipAttrs& attrs) {
  SmallVector<Arg, 8> inputs = args_of(grads);
  if (norm.defined()) inputs.emplace_back(norm);
  if (is_dense_list(grads)) {
    detail::apply_inplace(list_clip_op, {inputs.data(), inputs.size()}, &attrs);
    return;
  }
  for (const Tensor& grad : grads) {  // views with gaps, one by one
    if (attrs.by_norm)
      copy_(grad, to(grad, norm.dtype()) * clamp_max(attrs.limit / (norm + 1e-6), 1));
    else
      clamp_(grad, -attrs.limit, attrs.limit);
  }
}

Tensor wide_norm(std::string_view op, std::span<const Tensor> tensors, double norm_type,
                 bool error_if_nonfinite) {
  const SmallVector<Arg, 8> inputs = args_of(tensors);
  const Tensor total = called_as(op, [&] {
    return apply(list_norm_op, {inputs.data(), inputs.size()}, {norm_type});
  });
  if (error_if_nonfinite)
    check(std::isfinite(total.item<double>()), op, ": the norm of order ", norm_type,
          " is not finite, so it cannot be clipped; error_if_nonfinite is set");
  return total;
}

// As PyTorch's: of the tensors' own dtype.
Tensor narrowed(const Tensor& total, std::span<const Tensor> tensors) {
  DType dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors) dtype = promote_types(dtype, tensor.dtype());
  return to(total, dtype);
}

}  // namespace

void run_step(const ListStep& step, AdamListAttrs attrs) { run(step, adam_list_op, attrs); }
void run_step(const ListStep& step, SgdListAttrs attrs) { run(step, sgd_list_op, attrs); }
void run_step(const ListStep& step, UpdateListAttrs attrs) { run(step, update_list_op, attrs); }

void fused_adam_(std::span<const Tensor> params, std::span<const Tensor> grads,
                 std::span<const Tensor> exp_avgs, std::span<const Tensor> exp_avg_sqs,
                 std::span<const Tensor> max_exp_avg_sqs, const FusedAdamOptions& options,
                 const FusedExtras& extras) {
  adam_step("fused_adam_", params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, options, extras,
            false);
}

void fused_adamw_(std::span<const Tensor> params, std::span<const Tensor> grads,
                  std::span<const Tensor> exp_avgs, std::span<const Tensor> exp_avg_sqs,
                  std::span<const Tensor> max_exp_avg_sqs, const FusedAdamOptions& options,
                  const FusedExtras& extras) {
  adam_step("fused_adamw_", params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, options, extras,
            true);
}

void fused_sgd_(std::span<const Tensor> params, std::span<const Tensor> grads,
                std::span<const Tensor> momentum_buffers, const FusedSgdOptions& o,
                const FusedExtras& extras) {
  check(!extras.state_step.defined(), "fused_sgd_: the number of the step has no use");
  const std::span<const Tensor> states[] = {momentum_buffers};
  const size_t count = o.momentum != 0 ? 1 : 0;
  run_step(list_step("fused_sgd_", params, grads, {states, count}, {kSgdStates, count}, extras),
           SgdListAttrs{{},
                        o.lr,
                        o.momentum,
                        o.dampening,
                        o.weight_decay,
                        o.nesterov,
                        o.maximize,
                        o.is_first_step});
}

Tensor get_total_norm(std::span<const Tensor> tensors, double norm_type, bool error_if_nonfinite) {
  if (tensors.empty()) return zeros({});
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors)
    parts.push_back(is_sparse(tensor) ? sparse_parts(coalesced(tensor))->values : tensor);
  return narrowed(wide_norm("get_total_norm", parts, norm_type, error_if_nonfinite), tensors);
}

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const no_grad silent;
  const std::vector<Tensor> grads = gradients_of(parameters);
  if (grads.empty()) return zeros({});
  const Tensor total = wide_norm("clip_grad_norm_", grads, norm_type, error_if_nonfinite);
  clip(grads, total, {.limit = max_norm});
  return narrowed(total, grads);
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) {
  const no_grad silent;
  const std::vector<Tensor> grads = gradients_of(parameters);
  if (!grads.empty()) clip(grads, {}, {.limit = clip_value, .by_norm = false});
}

}  // namespace tensora
