// A ResNet learns to classify small photographs (CIFAR-10): a model of the library, augmentation,
// SGD with momentum and one cycle of the learning rate, and on a GPU bfloat16 and channels-last
// images.
//
//   example-cifar_resnet --data DIR [--device cuda] [--epochs N]
//   example-cifar_resnet --brief
//
// DIR holds the files of the binary version, data_batch_1.bin and so on. Without them the program
// says so and ends with code 77. --brief needs no files: a small ResNet learns the colours of
// discs.

#include <iostream>
#include <numbers>

#include "examples/arguments.h"
#include "tensora/data.h"
#include "tensora/models.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

// What the two kinds of run differ in.
struct Task {
  data::DatasetRef training, test;
  models::ResNet model;
  int64_t batch_size, epochs;
  double max_lr, expected_accuracy;
};

// From bytes to numbers around 0, with the means and deviations of CIFAR-10's channels.
data::Transform normalize() {
  return data::Compose({data::ConvertImageDtype{},
                        data::Normalize({0.4914, 0.4822, 0.4465}, {0.247, 0.2435, 0.2616})});
}
// Moves and mirrors the image at random before that: it is another one in every epoch.
data::Transform augment(int64_t side) {
  return data::Compose(
      {data::RandomCrop(side, {.padding = side / 8}), data::RandomHorizontalFlip{}, normalize()});
}

Task cifar(const std::string& folder, int64_t epochs) {
  return {.training = data::CIFAR10(folder, {.train = true, .transform = augment(32)}),
          .test = data::CIFAR10(folder, {.train = false, .transform = normalize()}),
          .model = models::resnet18({.num_classes = 10, .small_images = true}),
          .batch_size = 128,
          .epochs = epochs,
          .max_lr = 0.2,
          .expected_accuracy = epochs < 10 ? 0.5 : 0.9};
}

// Discs of ten colours at random places of noisy images [N, 3, 16, 16].
data::LabeledImages make_discs(int64_t count, data::Transform transform) {
  constexpr int64_t kSide = 16;
  const Tensor label = randint(0, 10, {count});
  const Tensor hue =
      (label / 10.0).view({count, 1, 1, 1}) + tensor({0.0, 1 / 3.0, 2 / 3.0}).view({3, 1, 1});
  const Tensor colour = (hue * (2 * std::numbers::pi)).cos() * 0.4 + 0.5;
  const Tensor line = linspace(-1, 1, kSide);
  const auto distance = [&](const Tensor& along) { return along - (rand({count, 1, 1, 1}) - 0.5); };
  const Tensor dx = distance(line), dy = distance(line.unsqueeze(1));
  const Tensor inside = (dx.square() + dy.square() < 0.25).to(kFloat32);
  const Tensor image = rand({count, 3, kSide, kSide}) * (1 - inside) + colour * inside;
  return data::LabeledImages((image * 255).to(kUInt8), label, std::move(transform));
}

Task discs() {
  return {.training = make_discs(384, augment(16)),
          .test = make_discs(200, normalize()),
          .model = models::ResNet({1, 1, 1, 1}, false, {.num_classes = 10, .small_images = true}),
          .batch_size = 32,
          .epochs = 2,
          .max_lr = 0.05,
          .expected_accuracy = 0.6};
}

// The part of the images that are classified correctly.
double accuracy(models::ResNet& model, data::DataLoader& loader, Device device) {
  model.eval();
  const no_grad scope;
  Tensor right = zeros({}, {.dtype = kInt64, .device = device});
  int64_t all = 0;
  for (auto& batch : loader) {
    right += (argmax(model(batch[0]), 1) == batch[1]).sum();
    all += batch[1].size(0);
  }
  model.train();
  return right.item<double>() / double(all);
}

int main(int argc, char** argv) try {
  const Arguments arguments(argc, argv);
  const std::string folder = arguments.value("--data", "");
  if (folder.empty() && !arguments.has("--brief")) {
    std::cout << "no CIFAR-10 files: get the binary version and say --data DIR; or --brief, which "
                 "needs none\n";
    return 77;
  }
  const Device device(arguments.value("--device", "cpu"));
  manual_seed(0);
  Task task = arguments.has("--brief")
                  ? discs()
                  : cifar(folder, std::stoll(arguments.value("--epochs", "15")));
  models::ResNet& model = task.model;
  model.to(device);
  // GPUs convolve fastest if the channels of a pixel lie together.
  if (device.is_cuda()) model.to(MemoryFormat::channels_last);
  data::DataLoader training(task.training, {.batch_size = task.batch_size,
                                            .shuffle = true,
                                            .num_workers = device.is_cuda() ? 8 : 1,
                                            .drop_last = true,
                                            .device = device});
  data::DataLoader test(task.test, {.batch_size = 200, .num_workers = 1, .device = device});
  std::cout << task.training->size() << " images to learn from, " << model.parameter_count()
            << " parameters\n";

  optim::SGD optimizer(
      model.parameters(),
      {.lr = task.max_lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  optim::OneCycleLR schedule(
      optimizer,
      {.max_lr = task.max_lr, .epochs = task.epochs, .steps_per_epoch = training.size()});
  const nn::CrossEntropyLoss loss_of({.label_smoothing = 0.1});
  double right = 0;
  for (int64_t epoch = 1; epoch <= task.epochs; ++epoch) {
    Tensor loss_sum = zeros({}, {.device = device});  // on the device: reading it would wait
    for (auto& batch : training) {
      const Tensor loss = [&] {
        // On a GPU convolutions run in bfloat16. The backward, outside, follows by itself.
        const autocast mixed({.enabled = device.is_cuda()});
        return loss_of(model(batch[0]), batch[1]);
      }();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      schedule.step();
      loss_sum += loss.detach();
    }
    right = accuracy(model, test, device);
    std::cout << "epoch " << epoch << "  loss " << loss_sum.item<double>() / double(training.size())
              << "  right on test images " << 100 * right << " %" << std::endl;
  }
  std::cout << (right >= task.expected_accuracy ? "learned" : "not learned") << "\n";
  return right >= task.expected_accuracy ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
