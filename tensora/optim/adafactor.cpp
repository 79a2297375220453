#include "tensora/optim/adafactor.h"

#include <cmath>
#include <limits>

#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const AdafactorOptions& o) {
  return {{"lr", o.lr},
          {"beta2_decay", o.beta2_decay},
          {"eps", Value::List{o.eps.first ? Value(*o.eps.first) : Value(), o.eps.second}},
          {"d", o.d},
          {"weight_decay", o.weight_decay},
          {"foreach", {}},
          {"maximize", o.maximize}};
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "weight_decay"}) check_range(name, group, option);
  check_range(name, group, "d", 1);
  check_range(name, group, "beta2_decay", -std::numeric_limits<double>::infinity(), 0);
  const Value& first = group.at("eps").at(0);
  check((first.is_none() || first.to_double() >= 0) && group.number("eps", 1) >= 0, name,
        ": the option 'eps' must not be negative");
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return std::numeric_limits<double>::epsilon();
    case kFloat16:
      return 0x1p-10;
    case kBFloat16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

// The root of the mean of squares.
Tensor size_of(const Tensor& x) {
  return norm(x) / std::sqrt(static_cast<double>(std::max<int64_t>(x.numel(), 1)));
}

void mean_of_squares(const Tensor& kept, const Tensor& grad, int64_t dim, double weight) {
  kept.lerp_(mean(grad * grad, dim, true), weight);
}

}  // namespace

Adafactor::Adafactor(Parameters params, const AdafactorOptions& options)
    : Optimizer("Adafactor", std::move(params), dict_of(options), check_options) {}

// Everything that depends on the parameter stays on its device: PyTorch reads two norms per
// parameter and step.
void Adafactor::update(ParamGroup& group) {
  const double lr = group.lr(), d = group.number("d"), decay = group.number("weight_decay");
  for (const Tensor& param : group.params) {
    if (!param.grad().defined()) continue;
    const DType wide = state_dtype(param);
    Value& state = this->state(param);
    if (state.size() == 0) {
      const TensorOptions options{.dtype = wide, .device = param.device()};
      state["step"] = zeros({}, {.dtype = kFloat32});
      Shape row = param.sizes(), column = param.sizes();
      if (param.dim() > 1) {
        row[param.dim() - 1] = 1;
        column[param.dim() - 2] = 1;
        state["row_var"] = zeros(row, options);
        state["col_var"] = zeros(column, options);
      } else {
        state["variance"] = zero_state(param);
      }
    }
    const double step = ++*counter_in(*this, state["step"]).data_ptr<float>();
    const double weight = std::pow(step, group.number("beta2_decay"));
    const Value& given = group.at("eps").at(0);
    const double eps = given.is_none() ? epsilon_of(param.dtype()) : given.to_double();
    const Tensor grad = group.flag("maximize") ? -param.grad().to(wide) : param.grad().to(wide);
    const Tensor now = param.detach().to(wide);
    const Tensor alpha =
        clamp_min(size_of(now), group.number("eps", 1)) * std::min(lr, 1 / std::sqrt(step));
    Tensor estimate;
    if (param.dim() > 1) {
      const Tensor &rows = state.at("row_var").to_tensor(),
                   &columns = state.at("col_var").to_tensor();
      mean_of_squares(rows, grad, -1, weight);
      mean_of_squares(columns, grad, -2, weight);
      estimate = matmul(rows, columns) / clamp_min(mean(rows, -2, true), eps);
    } else {
      const Tensor& variance = state.at("variance").to_tensor();
      variance.lerp_(grad * grad, weight);
      estimate = variance;
    }
    const Tensor moved = rsqrt(clamp_min(estimate, eps * eps)) * grad;
    const Tensor size = alpha / clamp_min(size_of(moved) / d, 1);
    param.copy_(now * (1 - lr * decay) - moved * size);
  }
}

void Adafactor::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"variance"});
  if (state.size() == 0) return;
  for (const char* name :
       {"step", param.dim() > 1 ? "row_var" : "variance", param.dim() > 1 ? "col_var" : "variance"})
    check(state.contains(std::string(name)) && !state.at(name).is_none(),
          "Adafactor: load_state_dict: the state of a parameter of shape ", param.sizes(),
          " must have '", name, "'");
  for (const auto& [name, dim] : {std::pair{"row_var", 1}, std::pair{"col_var", 2}}) {
    const Value* const value = state.find(std::string(name));
    if (!value || value->is_none()) continue;
    Shape expected = param.sizes();
    check(param.dim() > 1, "Adafactor: load_state_dict: '", name, "' is of a matrix, not of shape ",
          param.sizes());
    expected[param.dim() - dim] = 1;
    check(value->is_tensor() && value->to_tensor().sizes() == expected &&
              value->to_tensor().is_floating_point(),
          "Adafactor: load_state_dict: '", name, "' must be a floating-point tensor of shape ",
          expected);
  }
}

}  // namespace tensora::optim
