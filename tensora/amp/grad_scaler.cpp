#include "tensora/amp/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/optim/grad_scale_op.h"

namespace tensora::amp {
namespace {

constexpr double kLargest = 3.4028234663852886e38;

void check_options(const GradScalerOptions& options) {
  check(options.init_scale > 0 && options.init_scale <= kLargest,
        "GradScaler: init_scale must be a positive float32 number, got ", options.init_scale);
  check(options.growth_factor > 1, "GradScaler: growth_factor must be greater than 1, got ",
        options.growth_factor);
  check(options.backoff_factor > 0 && options.backoff_factor < 1,
        "GradScaler: backoff_factor must be between 0 and 1, got ", options.backoff_factor);
  check(options.growth_interval > 0, "GradScaler: growth_interval must be positive, got ",
        options.growth_interval);
}

// Writes found_inf and, with a factor, the gradients, all in one launch. A gradient with gaps goes
// through a copy.
void check_list(const Tensor& found_inf, const std::vector<Tensor>& grads,
                const Tensor& inv_scale) {
  std::vector<Tensor> dense = grads;
  for (Tensor& grad : dense)
    if (!is_dense(grad.sizes(), grad.strides())) grad = grad.contiguous();
  std::vector<Arg> inputs{found_inf};
  for (const Tensor& grad : dense) inputs.emplace_back(grad);
  if (inv_scale.defined()) inputs.emplace_back(inv_scale);
  const ListUnscaleAttrs attrs{.check_only = !inv_scale.defined()};
  tensora::detail::apply_inplace(list_unscale_op, inputs, &attrs);
  for (size_t i = 0; inv_scale.defined() && i < grads.size(); ++i)
    if (!dense[i].is_same(grads[i])) grads[i].copy_(dense[i]);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  check_options(options);
}

void GradScaler::require_scale(Device device) {
  if (scale_.defined()) return;
  scale_ = full({}, options_.init_scale, {.dtype = kFloat32, .device = device});
  growth_tracker_ = full({}, initial_tracker_, {.dtype = kInt32, .device = device});
}

const Tensor& GradScaler::scale_tensor(std::string_view function) const {
  check(scale_.defined(), "GradScaler.", function,
        ": nothing was scaled yet; call scale(loss).backward() before");
  return scale_;
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!is_enabled()) return loss;
  check(loss.defined() && loss.is_floating_point(), "GradScaler.scale: expected a floating-point ",
        "loss, got ", loss.defined() ? name(loss.dtype()) : "an undefined tensor");
  require_scale(loss.device());
  return loss * scale_.to(loss.device());
}

TensorList GradScaler::scale(const TensorList& losses) {
  TensorList scaled;
  for (const Tensor& loss : losses) scaled.push_back(scale(loss));
  return scaled;
}

bool GradScaler::on_one_device(const std::vector<Tensor>& parameters) {
  return std::all_of(parameters.begin(), parameters.end(), [&](const Tensor& parameter) {
    return parameter.device() == parameters[0].device();
  });
}

// One flag for each device that has gradients.
std::vector<Tensor> GradScaler::check_gradients(const std::vector<Tensor>& parameters,
                                                bool unscale) {
  const no_grad silent;
  std::vector<std::vector<Tensor>> lists;
  for (const Tensor& parameter : parameters) {
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    if (const SparseParts* const parts = sparse_parts(grad)) grad = parts->values;
    check(!unscale || grad.dtype() != kFloat16,
          "GradScaler.unscale_: attempting to unscale float16 gradients; keep the parameters in "
          "float32 and let autocast cast them");
    auto list = std::find_if(lists.begin(), lists.end(), [&](const std::vector<Tensor>& other) {
      return other[0].device() == grad.device();
    });
    if (list == lists.end()) list = lists.emplace(lists.end());
    list->push_back(grad);
  }
  std::vector<Tensor> found_infs;
  Tensor inv_scale;  // of a scale beyond 2^126 in float64: in float32 it would lose digits
  if (unscale) inv_scale = scale_.to(kFloat64).reciprocal().to(kFloat32);
  for (const std::vector<Tensor>& grads : lists) {
    const Device device = grads[0].device();
    found_infs.push_back(zeros({}, {.dtype = kFloat32, .device = device}));
    check_list(found_infs.back(), grads, unscale ? inv_scale.to(device) : Tensor());
  }
  return found_infs;
}

void GradScaler::unscale_(const void* optimizer, const std::vector<Tensor>& parameters) {
  if (!is_enabled()) return;
  scale_tensor("unscale_");
  Progress& progress = progress_[optimizer];
  check(progress.stage != Stage::unscaled,
        "GradScaler.unscale_: it was already called for this optimizer since the last update()");
  check(progress.stage != Stage::stepped, "GradScaler.unscale_: it is being called after step()");
  progress.found_infs = check_gradients(parameters, true);
  progress.stage = Stage::unscaled;
}

GradScaler::Progress& GradScaler::begin_step(const void* optimizer) {
  scale_tensor("step");
  Progress& progress = progress_[optimizer];
  check(progress.stage != Stage::stepped,
        "GradScaler.step: it was already called for this optimizer since the last update()");
  return progress;
}

GradScaler::Scaling GradScaler::begin_device_step(const void* optimizer,
                                                  const std::vector<Tensor>& parameters) {
  Progress& progress = begin_step(optimizer);
  Scaling scaling;
  if (progress.stage == Stage::ready) {
    progress.found_infs = check_gradients(parameters, false);
    if (!parameters.empty()) scaling.grad_scale = scale_.to(parameters[0].device());
  }
  check(!progress.found_infs.empty(),
        "GradScaler.step: no parameter of the optimizer has a gradient");
  scaling.found_inf = progress.found_infs[0];
  progress.stage = Stage::stepped;
  return scaling;
}

bool GradScaler::begin_host_step(const void* optimizer, const std::vector<Tensor>& parameters) {
  Progress& progress = begin_step(optimizer);
  if (progress.stage == Stage::ready) progress.found_infs = check_gradients(parameters, true);
  check(!progress.found_infs.empty(),
        "GradScaler.step: no parameter of the optimizer has a gradient");
  progress.stage = Stage::stepped;
  return std::all_of(progress.found_infs.begin(), progress.found_infs.end(),
                     [](const Tensor& found) { return found.item<float>() == 0; });
}

void GradScaler::update() {
  if (!is_enabled()) return;
  scale_tensor("update");
  const no_grad silent;
  Tensor found;
  for (const auto& [optimizer, progress] : progress_)
    for (const Tensor& flag : progress.found_infs) {
      const Tensor here = flag.to(scale_.device());
      found = found.defined() ? found + here : here;
    }
  check(found.defined(),
        "GradScaler.update: no gradients were checked since the last update(); "
        "call step(optimizer) before");
  const UpdateScaleAttrs attrs{options_.growth_factor, options_.backoff_factor,
                               options_.growth_interval};
  apply_inplace(update_scale_op, {scale_, growth_tracker_, found}, attrs);
  progress_.clear();
}

void GradScaler::update(double new_scale) {
  if (!is_enabled()) return;
  scale_tensor("update");
  check(new_scale > 0 && new_scale <= kLargest,
        "GradScaler.update: new_scale must be a positive float32 number, got ", new_scale);
  const no_grad silent;
  scale_.fill_(new_scale);
  progress_.clear();
}

double GradScaler::get_scale() const {
  if (!is_enabled()) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}

void GradScaler::set_growth_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.growth_factor = factor;
  check_options(changed);
  options_ = changed;
}
void GradScaler::set_backoff_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.backoff_factor = factor;
  check_options(changed);
  options_ = changed;
}
void GradScaler::set_growth_interval(int64_t interval) {
  GradScalerOptions changed = options_;
  changed.growth_interval = interval;
  check_options(changed);
  options_ = changed;
}

Value GradScaler::state_dict() const {
  Value state = Value::dict();
  if (!is_enabled()) return state;
  state["scale"] = get_scale();
  state["growth_factor"] = options_.growth_factor;
  state["backoff_factor"] = options_.backoff_factor;
  state["growth_interval"] = options_.growth_interval;
  state["_growth_tracker"] =
      growth_tracker_.defined() ? growth_tracker_.item<int64_t>() : initial_tracker_;
  return state;
}

void GradScaler::load_state_dict(const Value& state) {
  if (!is_enabled()) return;
  check(state.is_dict() && state.size() > 0,
        "GradScaler.load_state_dict: the state is empty, as that of a scaler that was not enabled");
  GradScalerOptions loaded = options_;
  loaded.init_scale = state.at("scale").to_double();
  loaded.growth_factor = state.at("growth_factor").to_double();
  loaded.backoff_factor = state.at("backoff_factor").to_double();
  loaded.growth_interval = state.at("growth_interval").to_int();
  const int64_t tracker = state.at("_growth_tracker").to_int();
  check_options(loaded);
  check(tracker >= 0, "GradScaler.load_state_dict: _growth_tracker must not be negative, got ",
        tracker);
  options_ = loaded;
  initial_tracker_ = tracker;
  if (!scale_.defined()) return;
  const no_grad silent;
  scale_.fill_(loaded.init_scale);
  growth_tracker_.fill_(tracker);
}

}  // namespace tensora::amp
