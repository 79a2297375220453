#include "tensora/libtorch/optim.h"

#include "tensora/autograd/sparse_gradient.h"
#include "tensora/optim/adagrad.h"
#include "tensora/optim/adam.h"
#include "tensora/optim/adamw.h"
#include "tensora/optim/lbfgs.h"
#include "tensora/optim/rmsprop.h"
#include "tensora/optim/sgd.h"

namespace torch::optim {

using tensora::optim::ParamGroup;

// ---- options

std::unique_ptr<OptimizerOptions> OptimizerOptions::clone() const {
  tensora::fail(
      "clone() has not been implemented for torch::optim::OptimizerOptions. Subclass "
      "torch::optim::OptimizerCloneableOptions<YourOptimizerOptions> instead");
}
double OptimizerOptions::get_lr() const {
  tensora::fail(
      "double get_lr() has not been overridden and implemented in subclass of "
      "torch::optim::OptimizerOptions, you must override it in your subclass.");
}
void OptimizerOptions::set_lr(double) {
  tensora::fail(
      "void set_lr() has not been overridden and implemented in subclass of "
      "torch::optim::OptimizerOptions, you must override it in your subclass.");
}
void OptimizerOptions::write(ParamGroup&) const {}
void OptimizerOptions::read(const ParamGroup&) {}

OptimizerOptions& OptimizerParamGroup::options() {
  tensora::check(options_ != nullptr,
                 "a parameter group that was not added to an optimizer has no "
                 "options");
  return *options_;
}

void SGDOptions::write(ParamGroup& group) const {
  group.set("lr", lr_);
  group.set("momentum", momentum_);
  group.set("dampening", dampening_);
  group.set("weight_decay", weight_decay_);
  group.set("nesterov", nesterov_);
}
void SGDOptions::read(const ParamGroup& group) {
  lr_ = group.lr();
  momentum_ = group.number("momentum");
  dampening_ = group.number("dampening");
  weight_decay_ = group.number("weight_decay");
  nesterov_ = group.flag("nesterov");
}

namespace {

template <class Options>
void write_adam(const Options& options, ParamGroup& group) {
  const auto [beta1, beta2] = options.betas();
  group.set("lr", options.lr());
  group.set("betas", tensora::Value::List{beta1, beta2});
  group.set("eps", options.eps());
  group.set("weight_decay", options.weight_decay());
  group.set("amsgrad", options.amsgrad());
}
template <class Options>
void read_adam(Options& options, const ParamGroup& group) {
  options.lr(group.lr());
  options.betas({group.number("betas", 0), group.number("betas", 1)});
  options.eps(group.number("eps"));
  options.weight_decay(group.number("weight_decay"));
  options.amsgrad(group.flag("amsgrad"));
}

}  // namespace

void AdamOptions::write(ParamGroup& group) const { write_adam(*this, group); }
void AdamOptions::read(const ParamGroup& group) { read_adam(*this, group); }
void AdamWOptions::write(ParamGroup& group) const { write_adam(*this, group); }
void AdamWOptions::read(const ParamGroup& group) { read_adam(*this, group); }

void AdagradOptions::write(ParamGroup& group) const {
  group.set("lr", lr_);
  group.set("lr_decay", lr_decay_);
  group.set("weight_decay", weight_decay_);
  group.set("initial_accumulator_value", initial_accumulator_value_);
  group.set("eps", eps_);
}
void AdagradOptions::read(const ParamGroup& group) {
  lr_ = group.lr();
  lr_decay_ = group.number("lr_decay");
  weight_decay_ = group.number("weight_decay");
  initial_accumulator_value_ = group.number("initial_accumulator_value");
  eps_ = group.number("eps");
}

void RMSpropOptions::write(ParamGroup& group) const {
  group.set("lr", lr_);
  group.set("alpha", alpha_);
  group.set("eps", eps_);
  group.set("weight_decay", weight_decay_);
  group.set("momentum", momentum_);
  group.set("centered", centered_);
}
void RMSpropOptions::read(const ParamGroup& group) {
  lr_ = group.lr();
  alpha_ = group.number("alpha");
  eps_ = group.number("eps");
  weight_decay_ = group.number("weight_decay");
  momentum_ = group.number("momentum");
  centered_ = group.flag("centered");
}

void LBFGSOptions::write(ParamGroup& group) const {
  group.set("lr", lr_);
  group.set("max_iter", max_iter_);
  group.set("max_eval", max_eval_.value_or(max_iter_ * 5 / 4));
  group.set("tolerance_grad", tolerance_grad_);
  group.set("tolerance_change", tolerance_change_);
  group.set("history_size", history_size_);
}
void LBFGSOptions::read(const ParamGroup& group) {
  lr_ = group.lr();
  max_iter_ = group.integer("max_iter");
  max_eval_ = group.integer("max_eval");
  tolerance_grad_ = group.number("tolerance_grad");
  tolerance_change_ = group.number("tolerance_change");
  history_size_ = group.integer("history_size");
}

// ---- states

std::unique_ptr<OptimizerParamState> OptimizerParamState::clone() const {
  tensora::fail(
      "clone() has not been implemented for torch::optim::OptimizerParamState. Subclass "
      "torch::optim::OptimizerCloneableParamState<YourOptimizerParamState> instead");
}

int64_t OptimizerParamState::integer(const char* name) const {
  return static_cast<int64_t>(number(name));
}
double OptimizerParamState::number(const char* name) const {
  const tensora::Value* value = values().find(std::string(name));
  if (!value) return 0;
  return value->is_tensor() ? value->to_tensor().item<double>() : value->to_double();
}
Tensor OptimizerParamState::tensor(const char* name) const {
  const tensora::Value* value = values().find(std::string(name));
  if (!value || value->is_none()) return {};
  return value->is_tensor() ? value->to_tensor() : tensora::full({}, value->to_double());
}
std::vector<Tensor> OptimizerParamState::tensors(const char* name) const {
  std::vector<Tensor> result;
  if (const tensora::Value* value = values().find(std::string(name)))
    for (const tensora::Value& item : value->to_list())
      result.push_back(item.is_tensor() ? item.to_tensor() : tensora::full({}, item.to_double()));
  return result;
}
void OptimizerParamState::set_count(const char* name, int64_t count) {
  set(name, static_cast<double>(count));  // the optimizer makes a counter of it
}

namespace {

bool equal_values(const tensora::Value& a, const tensora::Value& b) {
  if (a.is_list() && b.is_list() && a.size() == b.size()) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!equal_values(a.to_list()[i], b.to_list()[i])) return false;
    return true;
  }
  if (a.is_tensor() && b.is_tensor())
    return a.to_tensor().sizes() == b.to_tensor().sizes() && equal(a.to_tensor(), b.to_tensor());
  const auto number = [](const tensora::Value& value) {
    return value.is_tensor() ? value.to_tensor().item<double>() : value.to_double();
  };
  const auto is_one = [](const tensora::Value& value) {
    return value.is_number() || (value.is_tensor() && value.to_tensor().numel() == 1);
  };
  if (is_one(a) && is_one(b)) return number(a) == number(b);
  return a.is_none() && b.is_none();
}

}  // namespace

bool operator==(const OptimizerParamState& a, const OptimizerParamState& b) {
  if (a.values().size() != b.values().size()) return false;
  for (const auto& [name, value] : a.values().to_dict()) {
    const tensora::Value* other = b.values().find(name);
    if (!other || !equal_values(value, *other)) return false;
  }
  return true;
}

// ---- optimizers

Optimizer::Optimizer(const std::vector<OptimizerParamGroup>& groups,
                     std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (const OptimizerParamGroup& group : groups) add_param_group(group);
}
Optimizer::Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))},
                std::move(defaults)) {}

void Optimizer::add_param_group(const OptimizerParamGroup& group) {
  for (const Tensor& param : group.params())
    tensora::check(param.is_leaf(), "can't optimize a non-leaf Tensor");
  OptimizerParamGroup added(group.params());
  added.set_options(group.has_options() ? group.options().clone() : defaults_->clone());
  for (const OptimizerParamGroup& other : groups_)
    for (const Tensor& param : added.params())
      for (const Tensor& taken : other.params())
        tensora::check(!param.is_same(taken),
                       "some parameters appear in more than one parameter group");
  if (own_) {
    ParamGroup own{.params = added.params()};
    added.options().write(own);
    own_->add_param_group(std::move(own));
  }
  groups_.push_back(std::move(added));
}

void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  auto& params = this->parameters();
  params.insert(params.end(), parameters.begin(), parameters.end());
}

std::unique_ptr<Optimizer::Own> Optimizer::make_own(tensora::optim::Parameters) const {
  tensora::fail("an optimizer of your own must override step()");
}

Optimizer::Own& Optimizer::own() const {
  if (!own_) {
    std::vector<ParamGroup> made;
    for (const OptimizerParamGroup& group : groups_) {
      ParamGroup own{.params = group.params()};
      group.options().write(own);
      made.push_back(std::move(own));
    }
    own_ = make_own(std::move(made));
    return *own_;
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (i == own_->param_groups().size())
      own_->add_param_group({});  // the caller added to the list
    ParamGroup& own = own_->param_groups()[i];
    own.params = groups_[i].params();
    (groups_[i].has_options() ? groups_[i].options() : *defaults_).write(own);
  }
  return *own_;
}

// Note [States by LibTorch's names]
// An optimizer of Tensora keeps what it remembers of a parameter as a dict. `state()` shows each of
// them as an object of LibTorch's class, which reads and writes that dict; loading replaces the
// dicts, so the objects are made anew. An optimizer of the user's own has no such dicts and keeps
// its objects here.

void Optimizer::show_states() {
  for (const OptimizerParamGroup& group : groups_)
    for (const Tensor& param : group.params()) {
      auto& state = state_[param.unsafeGetTensorImpl()];
      if (!state && own_->has_state(param)) {
        state = make_state();
        state->show(own_->state(param));
      }
      if (!state) state_.erase(param.unsafeGetTensorImpl());
    }
}

void Optimizer::take_states() {
  for (const OptimizerParamGroup& group : groups_)
    for (const Tensor& param : group.params()) {
      const auto found = state_.find(param.unsafeGetTensorImpl());
      if (found == state_.end() || !found->second) continue;
      tensora::Value& values = own_->state(param);
      if (&found->second->values() == &values) continue;
      values = found->second->values();
      found->second->show(values);
    }
}

Optimizer::States& Optimizer::state() {
  if (own_) {
    take_states();
    show_states();
  }
  return state_;
}

void Optimizer::take_options() {
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].options().read(own_->param_groups()[i]);
}

Tensor Optimizer::step(LossClosure closure) {
  own();
  take_states();
  Tensor loss;
  if (closure)
    loss = own_->step(closure);
  else
    own_->step();
  if (!state_.empty()) show_states();
  return loss;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const OptimizerParamGroup& group : groups_)
    for (const Tensor& param : group.params()) {
      if (!param.grad().defined()) continue;
      if (set_to_none)
        param.set_grad({});
      else if (is_sparse(param.grad()))
        param.set_grad(without_entries(param.grad()));
      else
        param.grad().detach_().zero_();
    }
}

size_t Optimizer::size() const noexcept {
  size_t count = 0;
  for (const OptimizerParamGroup& group : groups_) count += group.params().size();
  return count;
}

void Optimizer::save(serialize::OutputArchive& archive) const {
  own();
  const_cast<Optimizer*>(this)->take_states();
  archive.set_content(own_->state_dict());
}
void Optimizer::load(serialize::InputArchive& archive) {
  own().load_state_dict(archive.content());
  take_options();
  state_.clear();
  show_states();
}

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const Optimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer) {
  optimizer.load(archive);
  return archive;
}

namespace detail {

template <class Options>
std::unique_ptr<Optimizer::Own> OptimizerWith<Options>::make_own(
    tensora::optim::Parameters parameters) const {
  namespace own = tensora::optim;
  if constexpr (std::same_as<Options, SGDOptions>)
    return std::make_unique<own::SGD>(std::move(parameters));
  else if constexpr (std::same_as<Options, AdamOptions>)
    return std::make_unique<own::Adam>(std::move(parameters));
  else if constexpr (std::same_as<Options, AdamWOptions>)
    return std::make_unique<own::AdamW>(std::move(parameters));
  else if constexpr (std::same_as<Options, AdagradOptions>)
    return std::make_unique<own::Adagrad>(std::move(parameters));
  else if constexpr (std::same_as<Options, RMSpropOptions>)
    return std::make_unique<own::RMSprop>(std::move(parameters));
  else
    return std::make_unique<own::LBFGS>(
        std::move(parameters),
        own::LBFGSOptions{
            .line_search_fn =
                static_cast<const LBFGSOptions&>(this->defaults()).line_search_fn().value_or("")});
}

template <class Options>
std::unique_ptr<OptimizerParamState> OptimizerWith<Options>::make_state() const {
  if constexpr (std::same_as<Options, SGDOptions>)
    return std::make_unique<SGDParamState>();
  else if constexpr (std::same_as<Options, AdamOptions>)
    return std::make_unique<AdamParamState>();
  else if constexpr (std::same_as<Options, AdamWOptions>)
    return std::make_unique<AdamWParamState>();
  else if constexpr (std::same_as<Options, AdagradOptions>)
    return std::make_unique<AdagradParamState>();
  else if constexpr (std::same_as<Options, RMSpropOptions>)
    return std::make_unique<RMSpropParamState>();
  else
    return std::make_unique<LBFGSParamState>();
}

template class OptimizerWith<SGDOptions>;
template class OptimizerWith<AdamOptions>;
template class OptimizerWith<AdamWOptions>;
template class OptimizerWith<AdagradOptions>;
template class OptimizerWith<RMSpropOptions>;
template class OptimizerWith<LBFGSOptions>;

}  // namespace detail

// ---- schedulers

void LRScheduler::step() {
  const std::vector<double> rates = get_lrs();
  auto& groups = optimizer_.param_groups();
  tensora::check(rates.size() == 1 || rates.size() == groups.size(), "Number of learning rates ",
                 "not equal to the number of param groups");
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i].options().set_lr(rates[rates.size() == 1 ? 0 : i]);
  ++step_count_;
}

std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

std::vector<double> StepLR::get_lrs() {
  std::vector<double> rates = get_current_lrs();
  if (step_count_ != 0 && step_count_ % step_size_ == 0)
    for (double& rate : rates) rate *= gamma_;
  return rates;
}

ReduceLROnPlateauScheduler::ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode,
                                                       float factor, int patience, double threshold,
                                                       ThresholdMode threshold_mode, int cooldown,
                                                       const std::vector<float>& min_lr, double eps,
                                                       bool verbose)
    : optimizer_(optimizer), verbose_(verbose) {
  tensora::optim::ReduceLROnPlateauOptions options;
  options.mode = mode == min ? "min" : "max";
  options.factor = factor;
  options.patience = patience;
  options.threshold = threshold;
  options.threshold_mode = threshold_mode == rel ? "rel" : "abs";
  options.cooldown = cooldown;
  if (!min_lr.empty()) options.min_lr = std::vector<double>(min_lr.begin(), min_lr.end());
  options.eps = eps;
  scheduler_ = std::make_unique<tensora::optim::ReduceLROnPlateau>(optimizer.own(), options);
}

void ReduceLROnPlateauScheduler::step(float metric) {
  optimizer_.own();  // with the rates that are in force
  scheduler_->step(metric);
  optimizer_.take_options();
  if (verbose_)
    for (const auto& group : optimizer_.param_groups())
      std::cout << "learning rate " << group.options().get_lr() << "\n";
}

}  // namespace torch::optim
