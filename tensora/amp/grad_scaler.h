#pragma once

#include <concepts>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tensora/core/tensor.h"
#include "tensora/io/state.h"

namespace tensora::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // after `growth_interval` steps without an infinite gradient
  double backoff_factor = 0.5;  // after a step with one, which is left out
  int64_t growth_interval = 2000;
  bool enabled = true;  // false: every call does what it would do without a scaler
};

/// What GradScaler needs of an optimizer; those of tensora::optim have it.
template <class T>
concept Optimizer = requires(T& optimizer) {
  { optimizer.parameters() } -> std::convertible_to<std::vector<Tensor>>;
  optimizer.step();
};
/// An optimizer that divides the gradients by grad_scale and leaves the step out if found_inf is
/// not 0, both on the device.
template <class T>
concept ScalingOptimizer = Optimizer<T> && requires(T& optimizer, const Tensor& number) {
  { optimizer.supports_grad_scaling() } -> std::same_as<bool>;
  optimizer.step({.grad_scale = number, .found_inf = number});
};

/// Keeps small gradients from vanishing in float16: the loss is multiplied by a large scale, and
/// the gradients are divided by it before the step. A step whose gradients are infinite or NaN is
/// left out and the scale lowered; after many good steps it is raised.
///
///   amp::GradScaler scaler;
///   for (const auto& [x, y] : batches) {
///     optimizer.zero_grad();
///     Tensor loss;
///     {
///       const autocast half(kFloat16);
///       loss = loss_of(model(x), y);
///     }
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);                         // only to clip, say
///     clip_grad_norm_(model.parameters(), 1.0);
///     scaler.step(optimizer);
///     scaler.update();
///   }
///
/// The scale, the count of good steps and the flag live on the device, and optimizers with a fused
/// step read them there: nothing waits for the device, and the whole step can be recorded in a CUDA
/// graph. With other optimizers `step` reads the flag, which waits.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  /// The loss times the scale, for `backward`.
  Tensor scale(const Tensor& loss);
  TensorList scale(const TensorList& losses);

  /// Divides the gradients of the optimizer's parameters by the scale, for code that looks at them
  /// between backward and step. At most once per optimizer and update.
  template <Optimizer T>
  void unscale_(T& optimizer) {
    unscale_(&optimizer, optimizer.parameters());
  }

  /// The optimizer's step, unless a gradient is infinite or NaN.
  template <Optimizer T>
  void step(T& optimizer) {
    if (!is_enabled()) return static_cast<void>(optimizer.step());
    const std::vector<Tensor> parameters = optimizer.parameters();
    if constexpr (ScalingOptimizer<T>) {
      if (optimizer.supports_grad_scaling() && on_one_device(parameters)) {
        const Scaling scaling = begin_device_step(&optimizer, parameters);
        optimizer.step({.grad_scale = scaling.grad_scale, .found_inf = scaling.found_inf});
        return;
      }
    }
    if (begin_host_step(&optimizer, parameters)) optimizer.step();
  }

  /// Lowers or raises the scale, at the end of an iteration; or sets it.
  void update();
  void update(double new_scale);

  bool is_enabled() const { return options_.enabled; }
  /// Waits for the device; 1 if the scaler is not enabled.
  double get_scale() const;
  double get_growth_factor() const { return options_.growth_factor; }
  void set_growth_factor(double factor);
  double get_backoff_factor() const { return options_.backoff_factor; }
  void set_backoff_factor(double factor);
  int64_t get_growth_interval() const { return options_.growth_interval; }
  void set_growth_interval(int64_t interval);

  /// {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}, as
  /// PyTorch's; empty if the scaler is not enabled. Waits for the device.
  Value state_dict() const;
  void load_state_dict(const Value& state_dict);

 private:
  enum class Stage : uint8_t { ready, unscaled, stepped };
  struct Progress {
    Stage stage = Stage::ready;
    std::vector<Tensor> found_infs;  // one for each device
  };
  struct Scaling {
    Tensor grad_scale, found_inf;
  };

  static bool on_one_device(const std::vector<Tensor>& parameters);
  void require_scale(Device device);
  const Tensor& scale_tensor(std::string_view function) const;
  void unscale_(const void* optimizer, const std::vector<Tensor>& parameters);
  Progress& begin_step(const void* optimizer);
  Scaling begin_device_step(const void* optimizer, const std::vector<Tensor>& parameters);
  bool begin_host_step(const void* optimizer, const std::vector<Tensor>& parameters);
  std::vector<Tensor> check_gradients(const std::vector<Tensor>& parameters, bool unscale);

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;  // made where the first loss is
  int64_t initial_tracker_ = 0;
  std::unordered_map<const void*, Progress> progress_;
};

}  // namespace tensora::amp
