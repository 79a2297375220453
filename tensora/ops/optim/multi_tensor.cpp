#include "tensora/ops/optim/multi_tensor.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/reshape.h"

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
  for (size_t i = layout.step(); i < layout.inputs(); ++i)
    infer.check(infer[i].dtype() == kFloat32 && infer[i].numel() == 1,
                "step, scale and flag are one float32 number each, got ", infer[i].dtype(),
                " of shape ", infer[i].sizes());
  for (int64_t i = 0; i < layout.outputs(); ++i) {
    const Tensor& written = infer[static_cast<size_t>(i)];
    infer.output(written.sizes(), written.strides(), written.dtype());
  }
}

// One parameter of a list in a definition: in float32, or in float64 if the parameter is.
struct Stepped {
  Tensor param, grad, state[3];

  Stepped(Args in, const ListLayout& layout, int64_t i, bool maximize) {
    const DType wide = promote_types(in[layout.param(i)]->dtype(), kFloat32);
    param = to(*in[layout.masters ? layout.master(i) : layout.param(i)], wide);
    grad = to(*in[layout.grad(i)], wide);
    if (layout.scaled) grad = grad / to(reshape(*in[layout.scale()], {}), wide);
    if (maximize) grad = -grad;
    for (int k = 0; k < layout.states; ++k) state[k] = to(*in[layout.state(k, i)], wide);
  }
  // Writes the results in the order of the list, unless the gradients were infinite.
  void store(Tensors& out, Args in, const ListLayout& layout, int64_t i,
             const Tensor& moved) const {
    const auto keep = [&](size_t slot, const Tensor& value) {
      const Tensor& old = *in[slot];
      Tensor fresh = to(value, old.dtype());
      if (layout.guarded) fresh = where(reshape(*in[layout.found_inf()], {}) != 0, old, fresh);
      out[slot] =
          empty_strided(old.sizes(), old.strides(), {.dtype = old.dtype(), .device = old.device()});
      copy_(out[slot], fresh);
    };
    keep(layout.param(i), moved);
    for (int k = 0; k < layout.states; ++k) keep(layout.state(k, i), state[k]);
    if (layout.masters) keep(layout.master(i), moved);
  }
};

Tensors adam_reference(Args in, const AdamListAttrs& a) {
  const ListLayout& layout = a.layout;
  Tensors out(static_cast<size_t>(layout.outputs()));
  for (int64_t i = 0; i < layout.count; ++i) {
    Stepped s(in, layout, i, a.maximize);
    const TensorOptions options{.dtype = kFloat64, .device = s.param.device()};
    const Tensor step =
        layout.counted ? to(reshape(*in[layout.step()], {}), kFloat64) : full({}, a.step, options);
    const auto correction = [&](double beta) { return 1 - pow(full({}, beta, options), step); };
    const DType wide = s.param.dtype();
    const Tensor grad = a.decoupled ? s.grad : s.grad + s.param * a.weight_decay;
    s.state[0] = s.state[0] + (grad - s.state[0]) * (1 - a.beta1);
    s.state[1] = s.state[1] * a.beta2 + grad * grad * (1 - a.beta2);
    if (a.amsgrad) s.state[2] = maximum(s.state[2], s.state[1]);
    const Tensor root =
        sqrt(a.amsgrad ? s.state[2] : s.state[1]) / to(sqrt(correction(a.beta2)), wide) + a.eps;
    const Tensor kept = a.decoupled ? s.param * (1 - a.lr * a.weight_decay) : s.param;
    s.store(out, in, layout, i, kept - s.state[0] * to(a.lr / correction(a.beta1), wide) / root);
  }
  return out;
}

Tensors sgd_reference(Args in, const SgdListAttrs& a) {
  const ListLayout& layout = a.layout;
  Tensors out(static_cast<size_t>(layout.outputs()));
  for (int64_t i = 0; i < layout.count; ++i) {
    Stepped s(in, layout, i, a.maximize);
    Tensor grad = s.grad + s.param * a.weight_decay;
    if (a.momentum != 0) {
      s.state[0] = a.first ? grad : s.state[0] * a.momentum + grad * (1 - a.dampening);
      grad = a.nesterov ? grad + s.state[0] * a.momentum : s.state[0];
    }
    s.store(out, in, layout, i, s.param - grad * a.lr);
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
class StepList {
 public:
  StepList(std::string_view op, std::span<const Tensor> params, const FusedExtras& extras)
      : op_(op), params_(params), extras_(extras) {
    layout.count = static_cast<int64_t>(params.size());
    add(params, "params");
  }
  void add_states(std::span<const Tensor> states, const char* what) {
    ++layout.states;
    add(states, what);
  }
  Args finish(std::span<const Tensor> grads) {
    layout.masters = !extras_.masters.empty();
    if (layout.masters) add(extras_.masters, "masters");
    check(grads.size() == params_.size(), op_, ": expected ", params_.size(), " grads, got ",
          grads.size());
    copies_.reserve(grads.size());
    for (size_t i = 0; i < grads.size(); ++i) inputs_.emplace_back(fitting(params_[i], grads[i]));
    layout.counted = add_number(extras_.state_step);
    layout.scaled = add_number(extras_.grad_scale);
    layout.guarded = add_number(extras_.found_inf);
    return {inputs_.data(), inputs_.size()};
  }
  ListLayout layout;

 private:
  void add(std::span<const Tensor> tensors, const char* what) {
    check(tensors.size() == params_.size(), op_, ": expected ", params_.size(), " ", what, ", got ",
          tensors.size());
    for (const Tensor& tensor : tensors) inputs_.emplace_back(tensor);
  }
  bool add_number(const Tensor& number) {
    if (number.defined()) inputs_.emplace_back(number);
    return number.defined();
  }
  const Tensor& fitting(const Tensor& param, const Tensor& grad) {
    check(grad.defined(), op_, ": a gradient is undefined");
    if (grad.sizes() != param.sizes() || laid_out_alike(grad, param)) return grad;
    Tensor& copy = copies_.emplace_back(empty_strided(
        param.sizes(), param.strides(), {.dtype = grad.dtype(), .device = grad.device()}));
    copy_(copy, grad);
    return copy;
  }
  std::string_view op_;
  std::span<const Tensor> params_;
  const FusedExtras& extras_;
  std::vector<Arg> inputs_;
  std::vector<Tensor> copies_;
};

void adam_step(std::string_view op, std::span<const Tensor> params, std::span<const Tensor> grads,
               std::span<const Tensor> exp_avgs, std::span<const Tensor> exp_avg_sqs,
               std::span<const Tensor> max_exp_avg_sqs, const FusedAdamOptions& o,
               const FusedExtras& extras, bool decoupled) {
  if (params.empty()) return;
  const no_grad silent;
  StepList list(op, params, extras);
  list.add_states(exp_avgs, "exp_avgs");
  list.add_states(exp_avg_sqs, "exp_avg_sqs");
  if (o.amsgrad) list.add_states(max_exp_avg_sqs, "max_exp_avg_sqs");
  const Args inputs = list.finish(grads);
  const AdamListAttrs attrs{list.layout,    o.lr,   o.beta1,   o.beta2,   o.eps,
                            o.weight_decay, o.step, decoupled, o.amsgrad, o.maximize};
  called_as(op, [&] { detail::apply_inplace(adam_list_op, inputs, &attrs); });
}

SmallVector<Arg, 8> gradients_of(std::span<const Tensor> parameters, std::vector<Tensor>& grads) {
  for (const Tensor& parameter : parameters)
    if (parameter.grad().defined()) grads.push_back(parameter.grad());
  return args_of(grads);
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
  if (params.empty()) return;
  check(!extras.state_step.defined(), "fused_sgd_: the number of the step has no use");
  const no_grad silent;
  StepList list("fused_sgd_", params, extras);
  if (o.momentum != 0) list.add_states(momentum_buffers, "momentum_buffers");
  const Args inputs = list.finish(grads);
  const SgdListAttrs attrs{list.layout,    o.lr,       o.momentum, o.dampening,
                           o.weight_decay, o.nesterov, o.maximize, o.is_first_step};
  called_as("fused_sgd_", [&] { detail::apply_inplace(sgd_list_op, inputs, &attrs); });
}

Tensor get_total_norm(std::span<const Tensor> tensors, double norm_type, bool error_if_nonfinite) {
  if (tensors.empty()) return zeros({});
  return narrowed(wide_norm("get_total_norm", tensors, norm_type, error_if_nonfinite), tensors);
}

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const no_grad silent;
  std::vector<Tensor> grads;
  gradients_of(parameters, grads);
  if (grads.empty()) return zeros({});
  const Tensor total = wide_norm("clip_grad_norm_", grads, norm_type, error_if_nonfinite);
  clip(grads, total, {.limit = max_norm});
  return narrowed(total, grads);
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) {
  const no_grad silent;
  std::vector<Tensor> grads;
  gradients_of(parameters, grads);
  if (!grads.empty()) clip(grads, {}, {.limit = clip_value, .by_norm = false});
}

}  // namespace tensora
