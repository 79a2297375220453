#pragma once

#include <optional>
#include <vector>

#include "tensora/io/state.h"

namespace tensora::optim {

struct AveragedParametersOptions {
  /// The weight of what was there: an exponential moving average. Without it, all updates count
  /// alike: stochastic weight averaging.
  std::optional<double> decay = {};
};

/// Averages of parameters over the steps of a training, as PyTorch's AveragedModel: the first
/// update copies, later ones average. Averages of 16-bit parameters are float32; tensors that hold
/// no floating-point numbers are copied.
class AveragedParameters {
 public:
  explicit AveragedParameters(std::vector<Tensor> parameters,
                              const AveragedParametersOptions& options = {});

  /// Takes the parameters as they are now into the averages.
  void update_parameters();
  const std::vector<Tensor>& averages() const { return averages_; }
  int64_t n_averaged() const { return n_averaged_; }

  /// Puts the averages into the parameters while the scope lasts, to evaluate them, say.
  class Applied {
   public:
    explicit Applied(const AveragedParameters& averaged);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    std::vector<Tensor> parameters_, before_;
  };
  /// Puts the averages into the parameters for good.
  void copy_to_parameters() const;

  /// {"n_averaged": …, "averages": […]}
  Value state_dict() const;
  void load_state_dict(const Value& state_dict);

 private:
  std::vector<Tensor> parameters_, averages_;
  std::optional<double> decay_;
  int64_t n_averaged_ = 0;
};

}  // namespace tensora::optim
