// A convolutional network reads handwritten digits: the files of MNIST, augmentation by workers,
// batch norm and dropout with their two modes, and one cycle of the learning rate. Five epochs give
// more than 99 % on the test images.
//
//   example-mnist_cnn [--data DIR] [--device cuda] [--epochs N] [--brief]
//
// DIR holds the four IDX files, packed by gzip or not. Without them the program says so and ends
// with code 77, by which tests know that they were skipped.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <numeric>

#include "examples/arguments.h"
#include "tensora/data.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

// The first of the usual places that exists.
std::string find_mnist() {
  const char* const folder = std::getenv("TENSORA_TEST_DATA");
  for (const std::string& place : {folder ? std::string(folder) + "/mnist" : std::string(),
                                   std::string("../shared/data/mnist"), std::string("mnist")})
    if (!place.empty() && std::filesystem::is_directory(place)) return place;
  return "";
}

// Two convolutions; pooling halves the sides behind each: 28, 14, 7 pixels. Batch norm
// has a bias of its own, so the convolutions need none.
nn::Sequential make_network() {
  return nn::Sequential(nn::Conv2d(1, 32, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(32),
                        nn::ReLU(), nn::MaxPool2d(2),
                        nn::Conv2d(32, 64, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(64),
                        nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(64 * 7 * 7, 128),
                        nn::ReLU(), nn::Dropout(0.3), nn::Linear(128, 10));
}

// The part of the images that are read correctly.
double accuracy(nn::Sequential& network, data::DataLoader& loader) {
  network.eval();  // dropout drops nothing, batch norm uses its running statistics
  const no_grad scope;
  int64_t right = 0, all = 0;
  for (auto& batch : loader) {
    right += (argmax(network(batch[0]), 1) == batch[1]).sum().item<int64_t>();
    all += batch[1].size(0);
  }
  network.train();
  return double(right) / double(all);
}

// The first `count` examples of a data set.
data::Subset first(const data::DatasetRef& dataset, int64_t count) {
  std::vector<int64_t> indices(size_t(std::min(count, dataset->size())));
  std::iota(indices.begin(), indices.end(), 0);
  return data::Subset(dataset, std::move(indices));
}

int main(int argc, char** argv) try {
  const Arguments arguments(argc, argv);
  const bool brief = arguments.has("--brief");
  const std::string folder = arguments.value("--data", find_mnist());
  if (folder.empty()) {
    std::cout << "no MNIST files here: get the four files train-images-idx3-ubyte.gz, … and say "
                 "--data DIR\n";
    return 77;
  }
  const Device device(arguments.value("--device", "cpu"));
  const int64_t epochs = std::stoll(arguments.value("--epochs", brief ? "2" : "5"));
  manual_seed(0);

  // A digit that is moved by a few pixels is still the same digit: the loader's workers show each
  // image at another place in every epoch. Transforms get the bytes of the file.
  const data::Normalize normalize({0.1307}, {0.3081});
  const data::Compose moved(
      {data::RandomCrop(28, {.padding = 2}), data::ConvertImageDtype{}, normalize});
  const data::Compose as_it_is({data::ConvertImageDtype{}, normalize});
  const auto training_set =
      first(data::MNIST(folder, {.train = true, .transform = moved}), brief ? 4000 : 60000);
  const auto test_set =
      first(data::MNIST(folder, {.train = false, .transform = as_it_is}), brief ? 1000 : 10000);
  data::DataLoader training(
      training_set,
      {.batch_size = 64, .shuffle = true, .num_workers = 1, .drop_last = true, .device = device});
  data::DataLoader test(test_set, {.batch_size = 500, .num_workers = 1, .device = device});

  nn::Sequential network = make_network();
  network.to(device);
  std::cout << training_set.size() << " images to learn from, " << network.parameter_count()
            << " parameters\n";
  optim::AdamW optimizer(network.parameters());
  // From a small rate up to max_lr and down to almost nothing: fast, and precise in the end.
  optim::OneCycleLR schedule(
      optimizer, {.max_lr = 5e-3, .epochs = epochs, .steps_per_epoch = training.size()});

  const auto start = std::chrono::steady_clock::now();
  double right = 0;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    Tensor loss_sum = zeros({}, {.device = device});  // on the device: reading it would wait
    for (auto& batch : training) {
      const Tensor loss = cross_entropy(network(batch[0]), batch[1]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      schedule.step();
      loss_sum += loss.detach();
    }
    right = accuracy(network, test);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::cout << "epoch " << epoch << "  loss " << loss_sum.item<double>() / double(training.size())
              << "  right on test images " << 100 * right << " %  (" << passed.count() << " s)"
              << std::endl;
  }
  const double expected = brief ? 0.9 : 0.99;
  std::cout << (right >= expected ? "learned" : "not learned") << "\n";
  return right >= expected ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
