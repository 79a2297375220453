#include "tensora/train/image_config.h"

#include <algorithm>
#include <cmath>

#include "tensora/core/device.h"
#include "tensora/train/config_json.h"

namespace tensora::train {

std::vector<std::string> image_models() {
  return {"mlp", "lenet", "resnet18", "resnet34", "resnet50"};
}

void ImageConfig::check_valid() const {
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    check(value >= least, name, " must be at least ", least, ", got ", value);
  };
  at_least("epochs", epochs, 1);
  at_least("batch", batch, 1);
  at_least("grad_accum", grad_accum, 1);
  at_least("image_size", image_size, 4);
  at_least("warmup", warmup, 0);
  at_least("workers", workers, 0);
  at_least("checkpoint_every", checkpoint_every, 0);
  at_least("keep_checkpoints", keep_checkpoints, 0);
  check(validation > 0 && validation < 1, "validation must be between 0 and 1, got ", validation);
  check(lr > 0 && std::isfinite(lr), "lr must be positive, got ", lr);
  for (const auto& [name, value] :
       {std::pair{"weight_decay", weight_decay}, {"clip_norm", clip_norm}})
    check(value >= 0 && std::isfinite(value), name, " must not be negative, got ", value);
  const auto models = image_models();
  check(std::find(models.begin(), models.end(), model) != models.end(), "there is no model '",
        model, "'; there are mlp, lenet, resnet18, resnet34 and resnet50");
  check(amp == "none" || amp == "bf16" || amp == "f16", "amp must be none, bf16 or f16, got '", amp,
        "'");
  const Device place(device);  // throws if there can be no such device
  check(amp != "f16" || !place.is_cpu(), "amp f16 needs a GPU; on the CPU there is bf16");
}

std::string ImageConfig::to_json() const { return config_to_json(*this); }

}  // namespace tensora::train
