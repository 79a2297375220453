#include "tensora/optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/optim/step_list.h"
#include "tensora/optim/strong_wolfe.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const LBFGSOptions& o) {
  return {{"lr", o.lr},
          {"max_iter", o.max_iter},
          {"max_eval", o.max_eval.value_or(o.max_iter * 5 / 4)},
          {"tolerance_grad", o.tolerance_grad},
          {"tolerance_change", o.tolerance_change},
          {"history_size", o.history_size},
          {"line_search_fn", o.line_search_fn.empty() ? Value() : Value(o.line_search_fn)},
          {"maximize", o.maximize}};
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "max_iter", "max_eval", "history_size"})
    check_range(name, group, option);
  const Value& search = group.at("line_search_fn");
  check(search.is_none() || search.to_string() == "strong_wolfe", name,
        ": the option 'line_search_fn' must be strong_wolfe or None, got ",
        search.is_none() ? "" : search.to_string());
}

double number_in(const Value& value) {
  return value.is_tensor() ? value.to_tensor().item<double>() : value.to_double();
}
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : abs(x).max().item<double>(); }
double product(const Tensor& a, const Tensor& b) { return dot(a, b).item<double>(); }

// One step: the state while it runs, which is the first parameter's state between steps.
class Run {
 public:
  Run(ParamGroup& group, Value& state, const Optimizer::Closure& closure)
      : group_(group),
        state_(state),
        closure_(closure),
        sign_(group.flag("maximize") ? -1 : 1),
        wide_(state_dtype(group.params[0])) {
    for (const char* count : {"func_evals", "n_iter"})
      if (!state_.contains(std::string(count))) state_[count] = 0;
  }

  Tensor run() {
    const Tensor first = evaluate();
    count_evaluations(1);
    if (largest(grad_) <= group_.number("tolerance_grad")) return first;
    restore();
    const int64_t limit = group_.integer("max_iter");
    for (int64_t i = 1; i <= limit; ++i) {
      choose_direction();
      const double before = loss_;
      t_ = total_iterations() == 1 ? std::min(1.0, 1.0 / abs(grad_).sum().item<double>()) : 1.0;
      t_ *= group_.lr();
      const double slope = product(grad_, direction_);
      if (slope > -group_.number("tolerance_change")) break;
      move(slope, i == limit);
      if (i == limit || evaluations_ >= group_.integer("max_eval")) break;
      if (largest(grad_) <= group_.number("tolerance_grad")) break;
      const double change = group_.number("tolerance_change");
      if (largest(direction_ * t_) <= change || std::abs(loss_ - before) < change) break;
    }
    save();
    return first;
  }

 private:
  int64_t total_iterations() const { return state_.at("n_iter").to_int(); }
  void count_evaluations(int64_t count) {
    evaluations_ += count;
    state_["func_evals"] = state_.at("func_evals").to_int() + count;
  }

  // The loss and the gradient of all parameters as one vector.
  Tensor evaluate() {
    Tensor loss;
    {
      const enable_grad recorded;
      loss = closure_();
    }
    loss_ = sign_ * loss.item<double>();
    std::vector<Tensor> parts;
    for (const Tensor& param : group_.params) {
      const Tensor grad = dense_of(param.grad());
      parts.push_back(grad.defined()
                          ? grad.detach().to(wide_).reshape({-1})
                          : zeros({param.numel()}, {.dtype = wide_, .device = param.device()}));
    }
    grad_ = cat(parts);
    if (sign_ < 0) grad_.neg_();
    return loss;
  }
  void add(double t) {
    int64_t offset = 0;
    for (const Tensor& param : group_.params) {
      const Tensor part = direction_.narrow(0, offset, param.numel()).reshape(param.sizes());
      param.add_(part.to(param.dtype()), t);
      offset += param.numel();
    }
  }

  // Takes the last step into the history and applies the inverse of the curvature it describes.
  void choose_direction() {
    state_["n_iter"] = total_iterations() + 1;
    if (total_iterations() == 1) {
      direction_ = -grad_;
      differences_.clear();
      steps_.clear();
      inverses_.clear();
      scale_ = ones({}, {.dtype = wide_, .device = grad_.device()});
    } else {
      const Tensor y = grad_ - last_grad_, s = direction_ * t_, ys = dot(y, s);
      if (ys.item<double>() > 1e-10) {
        const auto limit = static_cast<size_t>(group_.integer("history_size"));
        if (!steps_.empty() && steps_.size() >= limit)
          for (auto* list : {&differences_, &steps_, &inverses_}) list->erase(list->begin());
        differences_.push_back(y);
        steps_.push_back(s);
        inverses_.push_back(1.0 / ys);
        scale_ = ys / dot(y, y);
      }
      Tensor q = -grad_;
      std::vector<Tensor> weights(steps_.size());
      for (size_t i = steps_.size(); i-- > 0;) {
        weights[i] = dot(steps_[i], q) * inverses_[i];
        q.sub_(differences_[i] * weights[i]);
      }
      direction_ = q * scale_;
      for (size_t i = 0; i < steps_.size(); ++i)
        direction_.add_(steps_[i] * (weights[i] - dot(differences_[i], direction_) * inverses_[i]));
    }
    last_grad_ = grad_.clone();
    last_loss_ = loss_;
  }

  void move(double slope, bool is_last) {
    if (group_.at("line_search_fn").is_none()) {
      add(t_);
      if (is_last) return;  // with gradients of samples there is no use in another one here
      evaluate();
      count_evaluations(1);
      return;
    }
    std::vector<Tensor> origin;
    for (const Tensor& param : group_.params) origin.push_back(param.detach().clone());
    const auto at = [&](double t) {
      add(t);
      evaluate();
      for (size_t i = 0; i < origin.size(); ++i) group_.params[i].copy_(origin[i]);
      return LinePoint{t, loss_, grad_, product(grad_, direction_)};
    };
    const LineSearchResult found =
        strong_wolfe(at, {0, loss_, grad_, slope}, t_, largest(direction_),
                     group_.integer("max_eval") - evaluations_);
    t_ = found.point.t;
    loss_ = found.point.loss;
    grad_ = found.point.grad;
    add(t_);
    count_evaluations(found.evaluations);
  }

  void restore() {
    if (total_iterations() == 0) return;
    const auto tensors = [&](const char* name) {
      std::vector<Tensor> list;
      for (const Value& item : state_.at(name).to_list())
        list.push_back(item.is_tensor() ? item.to_tensor() : number(item.to_double()));
      return list;
    };
    direction_ = state_.at("d").to_tensor();
    t_ = number_in(state_.at("t"));
    differences_ = tensors("old_dirs");
    steps_ = tensors("old_stps");
    inverses_ = tensors("ro");
    const Value& scale = state_.at("H_diag");
    scale_ = scale.is_tensor() ? scale.to_tensor() : number(scale.to_double());
    last_grad_ = state_.at("prev_flat_grad").to_tensor();
    last_loss_ = number_in(state_.at("prev_loss"));
  }
  Tensor number(double value) const {
    return full({}, value, {.dtype = wide_, .device = grad_.device()});
  }
  void save() {
    const auto list = [](const std::vector<Tensor>& tensors) {
      Value result = Value::list();
      for (const Tensor& tensor : tensors) result.push_back(tensor);
      return result;
    };
    state_["d"] = direction_;
    state_["t"] = t_;
    state_["old_dirs"] = list(differences_);
    state_["old_stps"] = list(steps_);
    state_["ro"] = list(inverses_);
    state_["H_diag"] = scale_;
    state_["prev_flat_grad"] = last_grad_;
    state_["prev_loss"] = last_loss_;
  }

  ParamGroup& group_;
  Value& state_;
  const Optimizer::Closure& closure_;
  double sign_;
  DType wide_;
  double loss_ = 0, last_loss_ = 0, t_ = 0;
  int64_t evaluations_ = 0;
  Tensor grad_, last_grad_, direction_, scale_;
  std::vector<Tensor> differences_, steps_, inverses_;
};

}  // namespace

LBFGS::LBFGS(Parameters params, const LBFGSOptions& options)
    : Optimizer("LBFGS", std::move(params), dict_of(options), check_options) {
  check(param_groups().size() == 1, "LBFGS: expected one group of parameters, got ",
        param_groups().size());
}

Tensor LBFGS::step_with(const Closure& closure) {
  check(param_groups().size() == 1, "LBFGS: expected one group of parameters, got ",
        param_groups().size());
  ParamGroup& group = param_groups()[0];
  if (group.params.empty()) {
    const enable_grad recorded;
    return closure();
  }
  const no_grad silent;
  return Run(group, state(group.params[0]), closure).run();
}

void LBFGS::update(ParamGroup&) {
  check(false, "LBFGS: step needs a closure that computes the loss and its gradients");
}

void LBFGS::check_state(const Tensor&, const Value& state) const {
  for (const char* name : {"func_evals", "n_iter"})
    check(state.contains(std::string(name)) && state.at(name).is_int(), "LBFGS: load_state_dict: '",
          name, "' must be an integer");
  if (state.at("n_iter").to_int() == 0) return;
  int64_t total = 0;
  for (const Tensor& param : param_groups()[0].params) total += param.numel();
  const auto check_flat = [&](const char* name, const Value& value) {
    check(value.is_tensor() && value.to_tensor().sizes() == Shape{total} &&
              value.to_tensor().is_floating_point(),
          "LBFGS: load_state_dict: '", name, "' must be of floating-point tensors of ", total,
          " elements");
  };
  const auto check_number = [](const char* name, const Value& value) {
    check(is_one_number(value), "LBFGS: load_state_dict: '", name, "' must be of single numbers");
  };
  for (const char* name : {"d", "prev_flat_grad"}) check_flat(name, state.at(name));
  for (const char* name : {"old_dirs", "old_stps"})
    for (const Value& item : state.at(name).to_list()) check_flat(name, item);
  const size_t held = state.at("old_stps").size();
  check(state.at("old_dirs").size() == held && state.at("ro").size() == held,
        "LBFGS: load_state_dict: 'old_dirs', 'old_stps' and 'ro' must be equally long");
  for (const char* name : {"t", "H_diag", "prev_loss"}) check_number(name, state.at(name));
  for (const Value& item : state.at("ro").to_list()) check_number("ro", item);
}

}  // namespace tensora::optim
