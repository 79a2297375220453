#include "tensora/optim/muon.h"

#include <cmath>

#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const MuonOptions& o) {
  return {{"lr", o.lr},
          {"weight_decay", o.weight_decay},
          {"momentum", o.momentum},
          {"nesterov", o.nesterov},
          {"ns_coefficients",
           Value::List{o.ns_coefficients[0], o.ns_coefficients[1], o.ns_coefficients[2]}},
          {"eps", o.eps},
          {"ns_steps", o.ns_steps},
          {"adjust_lr_fn", o.adjust_lr_fn}};
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "momentum", "weight_decay"}) check_range(name, group, option);
  check_range(name, group, "ns_steps", 0, 99);
  const Value& adjust = group.at("adjust_lr_fn");
  check(adjust.is_none() || adjust.to_string() == "original" ||
            adjust.to_string() == "match_rms_adamw" || adjust.to_string() == "spectral_unclamped",
        name, ": the option 'adjust_lr_fn' must be original, match_rms_adamw or ",
        "spectral_unclamped, got ", adjust.is_none() ? "" : adjust.to_string());
  for (const Tensor& param : group.params)
    check(param.defined() && param.dim() == 2, name, ": parameters must be matrices, got shape ",
          param.defined() ? param.sizes() : Shape());
}

// Singular values near 1: an odd polynomial is applied a few times, which drives them there. In
// bfloat16, as in PyTorch; the directions need no more.
Tensor orthogonalized(const Tensor& matrix, const ParamGroup& group) {
  const double a = group.number("ns_coefficients", 0), b = group.number("ns_coefficients", 1),
               c = group.number("ns_coefficients", 2);
  const bool tall = matrix.size(0) > matrix.size(1);
  Tensor x = matrix.to(kBFloat16);
  if (tall) x = x.t();
  x = x / clamp_min(norm(x), group.number("eps"));
  for (int64_t i = 0; i < group.integer("ns_steps"); ++i) {
    const Tensor gram = matmul(x, x.t());
    x = addmm(x, addmm(gram, gram, gram, b, c), x, a);
  }
  return tall ? x.t() : x;
}

double rate_for(const Tensor& param, const ParamGroup& group) {
  const auto rows = static_cast<double>(param.size(0)),
             columns = static_cast<double>(param.size(1));
  const Value& adjust = group.at("adjust_lr_fn");
  const std::string kind = adjust.is_none() ? "original" : adjust.to_string();
  if (kind == "match_rms_adamw") return group.lr() * 0.2 * std::sqrt(std::max(rows, columns));
  const double ratio = rows / columns;
  return group.lr() * std::sqrt(kind == "original" ? std::max(1.0, ratio) : ratio);
}

}  // namespace

Muon::Muon(Parameters params, const MuonOptions& options)
    : Optimizer("Muon", std::move(params), dict_of(options), check_options) {}

void Muon::update(ParamGroup& group) {
  const double momentum = group.number("momentum");
  const double kept = 1 - group.lr() * group.number("weight_decay");
  for (const Tensor& param : group.params) {
    if (!param.grad().defined() || param.numel() == 0) continue;
    const Tensor grad = param.grad().to(state_dtype(param));
    Value& entry = state(param)["momentum_buffer"];
    if (entry.is_none()) entry = zero_state(param);
    const Tensor& buffer = entry.to_tensor();
    buffer.lerp_(grad, 1 - momentum);
    const Tensor direction =
        orthogonalized(group.flag("nesterov") ? lerp(grad, buffer, momentum) : buffer, group);
    const Tensor now = param.detach().to(state_dtype(param));
    param.copy_(now * kept - direction.to(now.dtype()) * rate_for(param, group));
  }
}

void Muon::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"momentum_buffer"});
}

}  // namespace tensora::optim
