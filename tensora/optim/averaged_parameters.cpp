#include "tensora/optim/averaged_parameters.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/core/deferred.h"
#include "tensora/ops.h"
#include "tensora/optim/optimizer.h"

namespace tensora::optim {

AveragedParameters::AveragedParameters(std::vector<Tensor> parameters,
                                       const AveragedParametersOptions& options)
    : parameters_(std::move(parameters)), decay_(options.decay) {
  check(!decay_ || (*decay_ >= 0 && *decay_ <= 1),
        "AveragedParameters: decay must be between 0 and 1, got ", decay_.value_or(0));
  const no_grad silent;
  for (const Tensor& parameter : parameters_) {
    check(parameter.defined(), "AveragedParameters: a parameter is undefined");
    averages_.push_back(parameter.detach().clone());
    if (parameter.is_floating_point())
      averages_.back() = averages_.back().to(state_dtype(parameter));
  }
}

void AveragedParameters::update_parameters() {
  note_host_work("averages of parameters count their updates");
  const no_grad silent;
  const double weight = decay_ ? 1 - *decay_ : 1 / static_cast<double>(n_averaged_ + 1);
  struct OnDevice {
    Device device;
    std::vector<Tensor> averages, parameters;
  };
  std::vector<OnDevice> lists;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor now = parameters_[i].detach();
    if (n_averaged_ == 0 || !now.is_floating_point()) {
      averages_[i].copy_(now);
      continue;
    }
    const auto known = std::find_if(lists.begin(), lists.end(), [&](const OnDevice& list) {
      return list.device == now.device();
    });
    OnDevice& list =
        known == lists.end() ? lists.emplace_back(OnDevice{now.device(), {}, {}}) : *known;
    list.averages.push_back(averages_[i]);
    list.parameters.push_back(now);
  }
  // average + weight (parameter - average), as a step downhill with the parameter for a gradient
  for (const OnDevice& list : lists)
    fused_sgd_(list.averages, list.parameters, {},
               {.lr = weight, .weight_decay = 1, .maximize = true});
  ++n_averaged_;
}

void AveragedParameters::copy_to_parameters() const {
  const no_grad silent;
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(averages_[i]);
}

AveragedParameters::Applied::Applied(const AveragedParameters& averaged)
    : parameters_(averaged.parameters_) {
  const no_grad silent;
  for (const Tensor& parameter : parameters_) before_.push_back(parameter.detach().clone());
  averaged.copy_to_parameters();
}

AveragedParameters::Applied::~Applied() {
  const no_grad silent;
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(before_[i]);
}

Value AveragedParameters::state_dict() const {
  Value averages = Value::list();
  for (const Tensor& average : averages_) averages.push_back(average);
  return Value::Dict{{"n_averaged", n_averaged_}, {"averages", std::move(averages)}};
}

void AveragedParameters::load_state_dict(const Value& state_dict) {
  const no_grad silent;
  check(state_dict.is_dict() && state_dict.contains(std::string("averages")) &&
            state_dict.contains(std::string("n_averaged")),
        "AveragedParameters: load_state_dict: expected a dict with 'n_averaged' and 'averages'");
  const int64_t count = state_dict.at("n_averaged").to_int();
  const Value::List& saved = state_dict.at("averages").to_list();
  check(saved.size() == averages_.size(), "AveragedParameters: load_state_dict: expected ",
        averages_.size(), " averages, got ", saved.size());
  for (size_t i = 0; i < saved.size(); ++i)
    check(saved[i].to_tensor().sizes() == averages_[i].sizes(),
          "AveragedParameters: load_state_dict: expected an average of shape ",
          averages_[i].sizes(), " at ", i, ", got ", saved[i].to_tensor().sizes());
  for (size_t i = 0; i < saved.size(); ++i) averages_[i].copy_(saved[i].to_tensor());
  n_averaged_ = count;
}

}  // namespace tensora::optim
