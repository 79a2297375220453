#pragma once

// torch::optim: LibTorch's optimizers and schedulers over Tensora's.

#include <memory>
#include <unordered_map>

#include "tensora/libtorch/serialize.h"
#include "tensora/optim/optimizer.h"
#include "tensora/optim/reduce_lr_on_plateau.h"

namespace ska {
/// The type of `Optimizer::state()` in LibTorch.
template <class Key, class Value>
using flat_hash_map = std::unordered_map<Key, Value>;
}  // namespace ska

namespace torch::optim {

/// The options of an optimizer or of one of its groups.
class OptimizerOptions {
 public:
  OptimizerOptions() = default;
  OptimizerOptions(const OptimizerOptions&) = default;
  OptimizerOptions& operator=(const OptimizerOptions&) = default;
  virtual ~OptimizerOptions() = default;
  bool operator==(const OptimizerOptions&) const { return true; }

  virtual std::unique_ptr<OptimizerOptions> clone() const;
  virtual double get_lr() const;
  virtual void set_lr(double lr);
  /// To and from the options of a group of Tensora's optimizer.
  virtual void write(tensora::optim::ParamGroup& group) const;
  virtual void read(const tensora::optim::ParamGroup& group);
};

template <class Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

/// Parameters with options of their own.
class OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params)  // NOLINT: implicit
      : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& other)
      : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr) {}
  OptimizerParamGroup& operator=(const OptimizerParamGroup&) = delete;
  OptimizerParamGroup(OptimizerParamGroup&&) = default;

  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options();
  const OptimizerOptions& options() const {
    return const_cast<OptimizerParamGroup*>(this)->options();
  }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

/// What an optimizer remembers of one parameter: entries of a dict, which are those of Tensora's
/// optimizer where one of its states is looked at, so that reading and setting need no copy.
class OptimizerParamState {
 public:
  OptimizerParamState() = default;
  OptimizerParamState(const OptimizerParamState& other) : own_(other.values()) {}
  OptimizerParamState& operator=(const OptimizerParamState&) = delete;
  virtual ~OptimizerParamState() = default;
  virtual std::unique_ptr<OptimizerParamState> clone() const;

  const tensora::Value& values() const { return shown_ ? *shown_ : own_; }
  tensora::Value& values() { return shown_ ? *shown_ : own_; }
  /// From now on the entries are those of `values`, which outlives this.
  void show(tensora::Value& values) { shown_ = &values; }
  friend bool operator==(const OptimizerParamState& a, const OptimizerParamState& b);

 protected:
  int64_t integer(const char* name) const;
  double number(const char* name) const;
  Tensor tensor(const char* name) const;
  std::vector<Tensor> tensors(const char* name) const;
  void set(const char* name, tensora::Value value) { values()[name] = std::move(value); }
  /// A count of steps, which Tensora's optimizers keep in a tensor.
  void set_count(const char* name, int64_t count);

 private:
  tensora::Value own_ = tensora::Value::dict();
  tensora::Value* shown_ = nullptr;
};

template <class Derived>
class OptimizerCloneableParamState : public OptimizerParamState {
 public:
  std::unique_ptr<OptimizerParamState> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

/// The base of all optimizers. One of your own overrides `step`.
class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;
  using Own = tensora::optim::Optimizer;
  /// By the address of the parameter's body, `param.unsafeGetTensorImpl()`.
  using States = ska::flat_hash_map<void*, std::unique_ptr<OptimizerParamState>>;

  Optimizer(const std::vector<OptimizerParamGroup>& groups,
            std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  virtual ~Optimizer() = default;

  void add_param_group(const OptimizerParamGroup& group);
  /// Adds parameters to the first group.
  void add_parameters(const std::vector<Tensor>& parameters);
  virtual Tensor step(LossClosure closure = nullptr);
  void zero_grad(bool set_to_none = true);
  /// The parameters of the first group.
  std::vector<Tensor>& parameters() noexcept { return groups_.at(0).params(); }
  const std::vector<Tensor>& parameters() const noexcept { return groups_.at(0).params(); }
  size_t size() const noexcept;
  OptimizerOptions& defaults() noexcept { return *defaults_; }
  const OptimizerOptions& defaults() const noexcept { return *defaults_; }
  std::vector<OptimizerParamGroup>& param_groups() noexcept { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const noexcept { return groups_; }
  /// The states of the parameters that have one. A state that the caller adds is used from the next
  /// step on.
  States& state();
  const States& state() const { return const_cast<Optimizer*>(this)->state(); }
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

  /// The optimizer of Tensora that steps, with the options of the groups as they are now.
  Own& own() const;
  /// Takes the options over that Tensora's optimizer has, for what changes them there.
  void take_options();

 protected:
  /// Makes Tensora's optimizer; an optimizer of the user's own has none.
  virtual std::unique_ptr<Own> make_own(tensora::optim::Parameters parameters) const;
  /// An empty state of this optimizer's kind.
  virtual std::unique_ptr<OptimizerParamState> make_state() const { return nullptr; }

  States state_;

 private:
  void show_states();
  void take_states();

  std::unique_ptr<OptimizerOptions> defaults_;
  std::vector<OptimizerParamGroup> groups_;
  mutable std::unique_ptr<Own> own_;
};

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer);

// ---- options

struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr) : lr_(lr) {}  // NOLINT: implicit
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, nesterov) = false;

 public:
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  void write(tensora::optim::ParamGroup& group) const override;
  void read(const tensora::optim::ParamGroup& group) override;
  friend bool operator==(const SGDOptions&, const SGDOptions&) = default;
};

struct AdamOptions : OptimizerCloneableOptions<AdamOptions> {
  using betas_t = std::tuple<double, double>;
  AdamOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT: implicit
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, amsgrad) = false;

 public:
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  void write(tensora::optim::ParamGroup& group) const override;
  void read(const tensora::optim::ParamGroup& group) override;
  friend bool operator==(const AdamOptions&, const AdamOptions&) = default;
};

struct AdamWOptions : OptimizerCloneableOptions<AdamWOptions> {
  using betas_t = std::tuple<double, double>;
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT: implicit
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 1e-2;
  TORCH_ARG(bool, amsgrad) = false;

 public:
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  void write(tensora::optim::ParamGroup& group) const override;
  void read(const tensora::optim::ParamGroup& group) override;
  friend bool operator==(const AdamWOptions&, const AdamWOptions&) = default;
};

struct AdagradOptions : OptimizerCloneableOptions<AdagradOptions> {
  AdagradOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT: implicit
  TORCH_ARG(double, lr) = 1e-2;
  TORCH_ARG(double, lr_decay) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, initial_accumulator_value) = 0;
  TORCH_ARG(double, eps) = 1e-10;

 public:
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  void write(tensora::optim::ParamGroup& group) const override;
  void read(const tensora::optim::ParamGroup& group) override;
  friend bool operator==(const AdagradOptions&, const AdagradOptions&) = default;
};

struct RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2) : lr_(lr) {}  // NOLINT: implicit
  TORCH_ARG(double, lr) = 1e-2;
  TORCH_ARG(double, alpha) = 0.99;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(bool, centered) = false;

 public:
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  void write(tensora::optim::ParamGroup& group) const override;
  void read(const tensora::optim::ParamGroup& group) override;
  friend bool operator==(const RMSpropOptions&, const RMSpropOptions&) = default;
};

struct LBFGSOptions : OptimizerCloneableOptions<LBFGSOptions> {
  LBFGSOptions(double lr = 1) : lr_(lr) {}  // NOLINT: implicit
  TORCH_ARG(double, lr) = 1;
  TORCH_ARG(int64_t, max_iter) = 20;
  TORCH_ARG(std::optional<int64_t>, max_eval) = std::nullopt;
  TORCH_ARG(double, tolerance_grad) = 1e-7;
  TORCH_ARG(double, tolerance_change) = 1e-9;
  TORCH_ARG(int64_t, history_size) = 100;
  TORCH_ARG(std::optional<std::string>, line_search_fn) = std::nullopt;

 public:
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }
  void write(tensora::optim::ParamGroup& group) const override;
  void read(const tensora::optim::ParamGroup& group) override;
  friend bool operator==(const LBFGSOptions&, const LBFGSOptions&) = default;
};

// ---- states

struct SGDParamState : OptimizerCloneableParamState<SGDParamState> {
  Tensor momentum_buffer() const { return tensor("momentum_buffer"); }
  void momentum_buffer(const Tensor& value) { set("momentum_buffer", value); }
};

struct AdamParamState : OptimizerCloneableParamState<AdamParamState> {
  int64_t step() const { return integer("step"); }
  void step(int64_t value) { set_count("step", value); }
  Tensor exp_avg() const { return tensor("exp_avg"); }
  void exp_avg(const Tensor& value) { set("exp_avg", value); }
  Tensor exp_avg_sq() const { return tensor("exp_avg_sq"); }
  void exp_avg_sq(const Tensor& value) { set("exp_avg_sq", value); }
  Tensor max_exp_avg_sq() const { return tensor("max_exp_avg_sq"); }
  void max_exp_avg_sq(const Tensor& value) { set("max_exp_avg_sq", value); }
};
struct AdamWParamState : AdamParamState {
  std::unique_ptr<OptimizerParamState> clone() const override {
    return std::make_unique<AdamWParamState>(*this);
  }
};

struct AdagradParamState : OptimizerCloneableParamState<AdagradParamState> {
  int64_t step() const { return integer("step"); }
  void step(int64_t value) { set_count("step", value); }
  Tensor sum() const { return tensor("sum"); }
  void sum(const Tensor& value) { set("sum", value); }
};

struct RMSpropParamState : OptimizerCloneableParamState<RMSpropParamState> {
  int64_t step() const { return integer("step"); }
  void step(int64_t value) { set_count("step", value); }
  Tensor square_avg() const { return tensor("square_avg"); }
  void square_avg(const Tensor& value) { set("square_avg", value); }
  Tensor momentum_buffer() const { return tensor("momentum_buffer"); }
  void momentum_buffer(const Tensor& value) { set("momentum_buffer", value); }
  Tensor grad_avg() const { return tensor("grad_avg"); }
  void grad_avg(const Tensor& value) { set("grad_avg", value); }
};

/// Of the first parameter; the others have none.
struct LBFGSParamState : OptimizerCloneableParamState<LBFGSParamState> {
  int64_t func_evals() const { return integer("func_evals"); }
  int64_t n_iter() const { return integer("n_iter"); }
  double t() const { return number("t"); }
  double prev_loss() const { return number("prev_loss"); }
  Tensor d() const { return tensor("d"); }
  Tensor H_diag() const { return tensor("H_diag"); }
  Tensor prev_flat_grad() const { return tensor("prev_flat_grad"); }
  std::vector<Tensor> old_dirs() const { return tensors("old_dirs"); }
  std::vector<Tensor> old_stps() const { return tensors("old_stps"); }
  std::vector<Tensor> ro() const { return tensors("ro"); }
};

// ---- optimizers

namespace detail {
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  OptimizerWith(const std::vector<OptimizerParamGroup>& groups, const Options& defaults)
      : Optimizer(groups, std::make_unique<Options>(defaults)) {
    own();  // which checks the options
  }
  OptimizerWith(std::vector<Tensor> parameters, const Options& defaults)
      : OptimizerWith(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))},
                      defaults) {}

 protected:
  std::unique_ptr<Own> make_own(tensora::optim::Parameters parameters) const override;
  std::unique_ptr<OptimizerParamState> make_state() const override;
};
extern template class OptimizerWith<SGDOptions>;
extern template class OptimizerWith<AdamOptions>;
extern template class OptimizerWith<AdamWOptions>;
extern template class OptimizerWith<AdagradOptions>;
extern template class OptimizerWith<RMSpropOptions>;
extern template class OptimizerWith<LBFGSOptions>;
}  // namespace detail

class SGD : public detail::OptimizerWith<SGDOptions> {
 public:
  using OptimizerWith::OptimizerWith;
};
class Adam : public detail::OptimizerWith<AdamOptions> {
 public:
  using OptimizerWith::OptimizerWith;
  Adam(const std::vector<OptimizerParamGroup>& groups) : OptimizerWith(groups, {}) {}  // NOLINT
  Adam(std::vector<Tensor> parameters) : OptimizerWith(std::move(parameters), {}) {}   // NOLINT
};
class AdamW : public detail::OptimizerWith<AdamWOptions> {
 public:
  using OptimizerWith::OptimizerWith;
  AdamW(const std::vector<OptimizerParamGroup>& groups) : OptimizerWith(groups, {}) {}  // NOLINT
  AdamW(std::vector<Tensor> parameters) : OptimizerWith(std::move(parameters), {}) {}   // NOLINT
};
class Adagrad : public detail::OptimizerWith<AdagradOptions> {
 public:
  using OptimizerWith::OptimizerWith;
  Adagrad(const std::vector<OptimizerParamGroup>& groups) : OptimizerWith(groups, {}) {}  // NOLINT
  Adagrad(std::vector<Tensor> parameters) : OptimizerWith(std::move(parameters), {}) {}   // NOLINT
};
class RMSprop : public detail::OptimizerWith<RMSpropOptions> {
 public:
  using OptimizerWith::OptimizerWith;
  RMSprop(const std::vector<OptimizerParamGroup>& groups) : OptimizerWith(groups, {}) {}  // NOLINT
  RMSprop(std::vector<Tensor> parameters) : OptimizerWith(std::move(parameters), {}) {}   // NOLINT
};
class LBFGS : public detail::OptimizerWith<LBFGSOptions> {
 public:
  using OptimizerWith::OptimizerWith;
  LBFGS(std::vector<Tensor> parameters) : OptimizerWith(std::move(parameters), {}) {}  // NOLINT
  Tensor step(LossClosure closure) override { return Optimizer::step(std::move(closure)); }
};

// ---- schedulers

/// Sets the learning rates of all groups. One of your own overrides `get_lrs`.
class LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler() = default;
  void step();

 protected:
  virtual std::vector<double> get_lrs() = 0;
  std::vector<double> get_current_lrs() const;
  unsigned step_count_ = 0;

 private:
  Optimizer& optimizer_;
};

/// Multiplies the rates by gamma every `step_size` steps. As LibTorch's it counts from the first
/// call of `step`, one later than PyTorch's and tensora::optim::StepLR.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1)
      : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {}

 private:
  std::vector<double> get_lrs() override;
  unsigned step_size_;
  double gamma_;
};

class ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  explicit ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min,
                                      float factor = 0.1f, int patience = 10,
                                      double threshold = 1e-4, ThresholdMode threshold_mode = rel,
                                      int cooldown = 0, const std::vector<float>& min_lr = {},
                                      double eps = 1e-8, bool verbose = false);
  void step(float metric);

 private:
  Optimizer& optimizer_;
  std::unique_ptr<tensora::optim::ReduceLROnPlateau> scheduler_;
  bool verbose_;
};

}  // namespace torch::optim
