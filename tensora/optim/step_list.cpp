#include "tensora/optim/step_list.h"

#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/ops/sparse/sparse_parts.h"

namespace tensora::optim {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kProduct = "mu_product";
constexpr const char* kMaster = "master_param";

bool has_rows(const Tensor& sparse) {
  return sparse_parts(sparse)->indices.size(0) == 1 && !sparse.is_complex();
}

class Gatherer {
 public:
  Gatherer(Optimizer& optimizer, ParamGroup& group, const GradScaling& scaling,
           const StatePlan& plan)
      : optimizer_(optimizer), group_(group), plan_(plan) {
    capturable_ = group.flag("capturable");
    masters_ = group.flag("master_weights");
    narrow_ = group.flag("narrow_states");
    counts_on_device_ = capturable_ || scaling.found_inf.defined();
  }

  std::vector<StepList> run() {
    for (const Tensor& param : group_.params)
      if (const Tensor grad = param.grad(); is_sparse(grad))
        add_sparse(param, grad);
      else if (grad.defined())
        add(param, grad);
    for (StepList& list : lists_) {
      if (list.step_on_device.defined()) {
        part_company(list);
        list.step_on_device.add_(1);
      }
      if (capturable_ && !list.params[0].is_cpu()) list.lr_on_device = lr_on(list);
    }
    return std::move(lists_);
  }

 private:
  void add_sparse(const Tensor& param, const Tensor& grad) {
    check(plan_.sparse != SparseGradients::refuse, optimizer_.name(),
          " does not support sparse gradients, please consider SGD, Adagrad or SparseAdam instead");
    if (plan_.sparse == SparseGradients::densify || !has_rows(grad)) add(param, dense_of(grad));
  }

  void add(const Tensor& param, const Tensor& grad) {
    Value& state = optimizer_.state(param);
    bool first = false;
    SmallVector<Tensor, 3> states;
    for (const char* name : plan_.states) {
      Value& entry = state[name];
      if (entry.is_none()) {
        entry = narrow_ ? zeros_like(param.detach()) : zero_state(param);
        if (plan_.initial_value != 0) entry.to_tensor().fill_(plan_.initial_value);
        first = true;
      }
      states.push_back(entry.to_tensor());
    }
    StepList like;
    like.first = first;
    if (plan_.multiplied) {
      const Tensor product = number_of(param, state[kProduct], 1, products_);
      if (product.is_cpu())
        like.product = *product.data_ptr<float>();
      else
        like.product_on_device = product;
    }
    if (plan_.counted) {
      const Tensor step = number_of(param, state[kStep], 0, steps_);
      if (step.is_cpu())
        like.step = static_cast<int64_t>(++*step.data_ptr<float>());
      else
        like.step_on_device = step;
    }
    StepList& list = list_of(param, like);
    list.has_complex |= param.is_complex();
    list.params.push_back(param);
    list.grads.push_back(grad);
    for (size_t k = 0; k < states.size(); ++k) list.states[k].push_back(states[k]);
    if (masters_) list.masters.push_back(master(param, state));
  }

  // See Note [Who counts the steps].
  using Moved = std::vector<std::pair<float, Tensor>>;
  Tensor number_of(const Tensor& param, Value& entry, double initial, Moved& moved) {
    if (entry.is_none()) entry = initial;
    const Tensor number = counter_in(optimizer_, entry);
    if (!number.is_cpu() || !counts_on_device_ || param.is_cpu()) return number;
    const float value = *number.data_ptr<float>();
    for (const auto& [old, there] : moved)
      if (old == value && there.device() == param.device()) return (entry = there).to_tensor();
    moved.emplace_back(value, full({}, value, {.dtype = kFloat32, .device = param.device()}));
    return (entry = moved.back().second).to_tensor();
  }

  Tensor master(const Tensor& param, Value& state) {
    check(param.dtype() != kFloat64, optimizer_.name(),
          ": master weights are float32, so the parameters cannot be float64");
    Value& entry = state[kMaster];
    if (entry.is_none()) {
      entry = zero_state(param);
      entry.to_tensor().copy_(param);
    }
    return entry.to_tensor();
  }

  StepList& list_of(const Tensor& param, const StepList& like) {
    for (StepList& list : lists_)
      if (list.step_on_device.is_same(like.step_on_device) &&
          list.product_on_device.is_same(like.product_on_device) && list.step == like.step &&
          list.product == like.product && list.first == like.first &&
          list.params[0].device() == param.device())
        return list;
    return lists_.emplace_back(like);
  }

  // If a parameter that is not stepped has this counter too, those that are get a copy of it.
  void part_company(StepList& list) {
    bool shared = false;
    for (const Tensor& param : group_.params) {
      if (param.grad().defined() || !optimizer_.has_state(param)) continue;
      const Value* const step = optimizer_.state(param).find(std::string(kStep));
      shared |= step && step->is_tensor() && step->to_tensor().is_same(list.step_on_device);
    }
    if (!shared) return;
    const auto part = [&](Tensor& number, const char* name) {
      if (!number.defined()) return;
      number = number.clone();
      for (const Tensor& param : list.params) optimizer_.state(param)[name] = number;
    };
    part(list.step_on_device, kStep);
    part(list.product_on_device, kProduct);
  }

  Tensor lr_on(const StepList& list) {
    const Device device = list.params[0].device();
    Tensor& lr = group_.lr_on_device;
    if (!lr.defined()) lr = full({}, group_.lr(), {.dtype = kFloat64, .device = device});
    check(lr.device() == device, optimizer_.name(),
          ": with capturable, the parameters of a group must be on one device, got ", lr.device(),
          " and ", device);
    return lr;
  }

  Optimizer& optimizer_;
  ParamGroup& group_;
  const StatePlan& plan_;
  bool capturable_, masters_, narrow_, counts_on_device_;
  std::vector<StepList> lists_;
  Moved steps_, products_;
};

}  // namespace

std::vector<Tensor> as_reals(std::span<const Tensor> tensors) {
  std::vector<Tensor> reals;
  for (const Tensor& tensor : tensors)
    reals.push_back(tensor.is_complex() ? view_as_real(tensor) : tensor);
  return reals;
}

std::vector<SparseRows> sparse_rows_of(const ParamGroup& group) {
  std::vector<SparseRows> all;
  for (const Tensor& param : group.params) {
    const Tensor grad = param.grad();
    if (!is_sparse(grad) || !has_rows(grad)) continue;
    const Tensor whole = coalesced(grad.detach());
    const SparseParts& parts = *sparse_parts(whole);
    all.push_back({param, parts.indices.select(0, 0), parts.values});
  }
  return all;
}

std::vector<StepList> gather(Optimizer& optimizer, ParamGroup& group, const GradScaling& scaling,
                             const StatePlan& plan) {
  return Gatherer(optimizer, group, scaling, plan).run();
}

bool is_skipped(const GradScaling& scaling) {
  return scaling.found_inf.defined() && scaling.found_inf.item<float>() != 0;
}

void finish(std::span<const StepList> lists, Optimizer& optimizer, const GradScaling& scaling) {
  if (!scaling.found_inf.defined()) return;
  for (const StepList& list : lists) {
    if (list.step_on_device.defined()) {
      list.step_on_device.sub_(scaling.found_inf.reshape({}));
      continue;
    }
    if (list.step == 0 || !is_skipped(scaling)) continue;
    for (const Tensor& param : list.params)
      --*optimizer.state(param).at(kStep).to_tensor().data_ptr<float>();
  }
}

Value::Dict with_flags(Value::Dict options,
                       std::initializer_list<std::pair<const char*, bool>> flags) {
  for (const auto& [name, value] : flags)
    if (value) options.emplace_back(name, true);
  return options;
}

// A count of steps must be one that float32 can hold. What lies on a GPU is not waited for.
void check_count(const Optimizer& optimizer, const Value& state) {
  const Value* const step = state.find(std::string(kStep));
  if (!step || (step->is_tensor() && !step->to_tensor().device().is_cpu())) return;
  const double count = step->is_tensor() ? step->to_tensor().item<double>() : step->to_double();
  check(count >= 0 && count <= 9007199254740992.0, optimizer.name(),
        ": load_state_dict: 'step' must be from 0 to 2^53, got ", count);
}

void check_shapes(const Optimizer& optimizer, const Tensor& param, const Value& state,
                  std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Value* const value = state.find(std::string(name));
    if (!value || value->is_none()) continue;
    check(value->is_tensor() && value->to_tensor().sizes() == param.sizes() &&
              (param.is_complex() ? value->to_tensor().is_complex()
                                  : value->to_tensor().is_floating_point()),
          optimizer.name(), ": load_state_dict: '", name, "' must be a ",
          param.is_complex() ? "complex" : "floating-point", " tensor of shape ", param.sizes(),
          ", got ", value->is_tensor() ? value->to_tensor().sizes() : Shape(),
          value->is_tensor() ? "" : value->kind());
  }
  for (const char* name : {kStep, kProduct})
    if (const Value* const number = state.find(std::string(name)))
      check(is_one_number(*number), optimizer.name(), ": load_state_dict: '", name,
            "' must be one number, got ",
            number->is_tensor() ? concat("a ", number->to_tensor().dtype(), " tensor of shape ",
                                         number->to_tensor().sizes())
                                : std::string(number->kind()));
  check_count(optimizer, state);
}

bool is_one_number(const Value& value) {
  if (!value.is_tensor()) return value.is_number();
  const Tensor& tensor = value.to_tensor();
  return tensor.defined() && !tensor.is_meta() && tensor.numel() == 1 && !tensor.is_complex() &&
         !tensor.is_quantized();
}

Tensor counter_in(const Optimizer& optimizer, Value& entry) {
  check(is_one_number(entry), optimizer.name(), ": the count of steps must be one number, got ",
        entry.is_tensor() ? concat("a tensor of shape ", entry.to_tensor().sizes())
                          : std::string(entry.kind()));
  if (entry.is_number())  // as PyTorch saved it long ago
    entry = full({}, entry.to_double(), {.dtype = kFloat32});
  if (entry.to_tensor().dtype() != kFloat32) entry = entry.to_tensor().detach().to(kFloat32);
  return entry.to_tensor();
}

void check_range(const std::string& optimizer, const ParamGroup& group, const char* option,
                 double low, double high) {
  const double value = group.number(option);
  if (high == std::numeric_limits<double>::infinity())
    check(value >= low, optimizer, ": the option '", option, "' must be at least ", low, ", got ",
          value);
  else
    check(value >= low && value <= high, optimizer, ": the option '", option, "' must be between ",
          low, " and ", high, ", got ", value);
}

void check_betas(const std::string& optimizer, const ParamGroup& group) {
  for (int i = 0; i < 2; ++i) {
    const double beta = group.number("betas", i);
    check(beta >= 0 && beta < 1, optimizer,
          ": the option 'betas' must be at least 0 and below 1, got ", beta, " at ", i);
  }
}

}  // namespace tensora::optim
