#include "tensora/train/image_run.h"

#include <filesystem>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/random.h"
#include "tensora/data/data_loader.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/models/lenet.h"
#include "tensora/models/mlp.h"
#include "tensora/models/resnet.h"
#include "tensora/ops.h"
#include "tensora/optim/adamw.h"
#include "tensora/train/config_json.h"
#include "tensora/train/run_lock.h"

namespace tensora::train {
namespace {

std::shared_ptr<nn::Module> make_model(const std::string& name, const ImageData& data) {
  const auto classes = static_cast<int64_t>(data.classes.size());
  const auto channels = static_cast<int64_t>(data.mean.size());
  if (name == "mlp")
    return std::make_shared<models::MLP>(
        std::vector<int64_t>{channels * data.size * data.size, 256, 256, classes});
  if (name == "lenet")
    return std::make_shared<models::LeNet>(models::LeNetOptions{
        .num_classes = classes, .in_channels = channels, .image_size = data.size});
  const models::ResNetOptions options{
      .num_classes = classes, .in_channels = channels, .small_images = data.size <= 64};
  return std::make_shared<models::ResNet>(name == "resnet18"   ? models::resnet18(options)
                                          : name == "resnet34" ? models::resnet34(options)
                                                               : models::resnet50(options));
}

Tensor by_channel(const std::vector<double>& values, Device device) {
  return tensor(values, {.dtype = kFloat32}).view({1, -1, 1, 1}).to(device);
}

}  // namespace

ImageRun::ImageRun(const ImageConfig& config, ImageRunOptions options)
    : config_(config), options_(std::move(options)), device_(config.device) {
  config_.check_valid();
  data_ = open_images(config_);
  manual_seed(config_.seed);
  model_ = make_model(config_.model, data_);
  model_->to(device_);
  // The layout in which GPUs convolve fastest.
  if (device_.is_cuda()) model_->to(MemoryFormat::channels_last);
  loader_ = std::make_unique<data::DataLoader>(
      data_.training, data::DataLoaderOptions{.batch_size = config_.batch,
                                              .shuffle = true,
                                              .num_workers = static_cast<int>(config_.workers),
                                              .device = device_,
                                              .seed = config_.seed});
  const int64_t parts = config_.epochs * loader_->size();
  steps_ = std::max<int64_t>(1, parts / config_.grad_accum);
  mean_ = by_channel(data_.mean, device_);
  std_ = by_channel(data_.std, device_);
}

ImageRun::~ImageRun() = default;

Tensor ImageRun::normalised(const Tensor& images) const { return (images - mean_) / std_; }

Tensor ImageRun::loss(int64_t step, int64_t part) {
  if (last_ != std::pair(step, part)) {
    auto next = loader_->next();
    if (!next) next = loader_->next();  // of the next epoch
    check(next.has_value(), "the data set gave no batch");
    batch_ = std::move(*next);
    last_ = {step, part};
  }
  return cross_entropy(model_->call(normalised(batch_[0])), batch_[1]);
}

Scalars ImageRun::validate() const {
  const no_grad silent;
  data::DataLoader loader(data_.validation, {.batch_size = std::max<int64_t>(config_.batch, 64),
                                             .num_workers = static_cast<int>(config_.workers),
                                             .device = device_,
                                             .seed = 0});
  // Summed on the device, so that it is asked once.
  Tensor right = zeros({}, {.dtype = kFloat64, .device = device_}), loss = zeros_like(right);
  while (const auto batch = loader.next()) {
    const Tensor scores = model_->call(normalised((*batch)[0]));
    right = right + eq(argmax(scores, 1), (*batch)[1]).to(kFloat64).sum();
    loss = loss + cross_entropy(scores, (*batch)[1]).to(kFloat64) * double(scores.size(0));
  }
  const auto count = static_cast<double>(data_.validation->size());
  return {{"accuracy/val", right.item<double>() / count},
          {"loss/val", loss.item<double>() / count}};
}

TrainerOutcome ImageRun::train() {
  const std::string& folder = options_.folder;
  check(!folder.empty(), "ImageRun: a run needs a folder");
  const RunLock lock(folder);
  if (std::filesystem::exists(folder + "/config.json")) {
    check(options_.resume, folder, " already holds a run: resume it, or choose another folder");
    check_unchanged(config_, read_config<ImageConfig>(folder), folder);
  }
  optim::AdamW optimizer(model_->parameters(),
                         {.lr = config_.lr, .weight_decay = config_.weight_decay});
  TrainerOptions options{
      .folder = folder,
      .steps = steps_,
      .grad_accum = config_.grad_accum,
      .clip_norm = config_.clip_norm,
      .validate_every = std::max<int64_t>(1, loader_->size() / config_.grad_accum),
      .checkpoint_every = config_.checkpoint_every,
      .keep_checkpoints = static_cast<int>(config_.keep_checkpoints),
      .resume = options_.resume,
      .lock = &lock,
      .find_nan = config_.find_nan,
      .unit = "image",
      .units_per_step = config_.batch * config_.grad_accum};
  if (config_.amp != "none") options.amp = config_.amp == "bf16" ? kBFloat16 : kFloat16;
  TrainerTask task{.loss = [this](int64_t step, int64_t part) { return loss(step, part); },
                   .learning_rate =
                       [this](int64_t step) {
                         const int64_t warmup = std::min(config_.warmup, steps_ / 10);
                         return warmup_cosine(step, steps_, warmup, config_.lr, config_.lr / 100);
                       },
                   .validate = [this] { return validate(); },
                   .higher_is_better = true,
                   .start =
                       [this] {
                         io::AtomicFile::remove_abandoned(options_.folder);
                         write_config(config_, options_.folder);
                       },
                   .save = [this] { return loader_->state_dict(); },
                   .load = [this](const Value& state) { loader_->load_state_dict(state); }};
  const TrainerOutcome outcome =
      Trainer(*model_, optimizer, std::move(options), std::move(task)).run();
  io::save_safetensors(model_->state_dict(), folder + "/model.safetensors");
  return outcome;
}

}  // namespace tensora::train
