// A data set of your own: two functions, `get` and `size`. This one draws its images when they are
// asked for, a disc or a square each; a loader's workers draw them ahead of the training.
//
//   custom_dataset [--brief] [--png FILE]     FILE shows what the network sees
#include <cmath>
#include <cstring>
#include <iostream>
#include <string>

#include "tensora/data.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

namespace {

constexpr int64_t kSide = 16;

/// Example i is {image [1, 16, 16], label}: label 0 is a disc, 1 a square.
class Shapes final : public data::Dataset {
 public:
  explicit Shapes(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }

  // Called from several threads at once: hence const. Random ops draw from a stream of the
  // example's own, which depends on the loader's seed, the epoch and the index, and not on which
  // worker runs this. So the shapes differ from epoch to epoch, and a second run sees the same.
  data::Example get(int64_t index) const override {
    const int64_t label = index % 2;
    const Tensor place = rand({3});
    const double radius = 3 + 3 * place[0].item<double>();
    const double x0 = 6 + 4 * place[1].item<double>(), y0 = 6 + 4 * place[2].item<double>();
    Tensor image = randn({1, kSide, kSide}) * 0.1;
    auto pixels = image.accessor<float, 3>();
    for (int64_t y = 0; y < kSide; ++y)
      for (int64_t x = 0; x < kSide; ++x) {
        const double dx = std::abs(double(x) - x0), dy = std::abs(double(y) - y0);
        const bool inside = label == 0 ? dx * dx + dy * dy < radius * radius
                                       : std::max(dx, dy) < radius * 0.886;  // of equal area
        if (inside) pixels[0][y][x] += 0.8f;
      }
    return {image, tensor(label)};
  }

 private:
  int64_t size_;
};

struct Net : nn::Layer<Net> {
  nn::Linear first = register_module("first", nn::Linear(kSide* kSide, 64));
  nn::Linear second = register_module("second", nn::Linear(64, 2));
  Tensor forward(const Tensor& images) const { return second(relu(first(images.flatten(1)))); }
};

double accuracy(const Net& net, data::DataLoader& loader) {
  const no_grad guard;
  int64_t right = 0, all = 0;
  for (auto& batch : loader) {
    right += (argmax(net(batch[0]), 1) == batch[1]).sum().item<int64_t>();
    all += batch[1].numel();
  }
  return double(right) / double(all);
}

}  // namespace

int main(int argc, char** argv) try {
  bool brief = false;
  std::string png;
  for (int i = 1; i < argc; ++i) {
    brief |= std::strcmp(argv[i], "--brief") == 0;
    if (std::strcmp(argv[i], "--png") == 0 && i + 1 < argc) png = argv[++i];
  }
  manual_seed(0);
  const auto parts = data::random_split(Shapes(brief ? 2000 : 10000), {0.8, 0.2});
  data::DataLoader train(parts[0],
                         {.batch_size = 50, .shuffle = true, .num_workers = 2, .drop_last = true});
  data::DataLoader validation(parts[1], {.batch_size = 100, .num_workers = 1});

  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-3});
  for (int epoch = 0; epoch < (brief ? 5 : 10); ++epoch) {
    double loss_sum = 0;
    for (auto& batch : train) {
      const Tensor loss = cross_entropy(net(batch[0]), batch[1]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
    }
    std::cout << "epoch " << epoch << ": loss " << loss_sum / double(train.size())
              << ", right on new shapes " << accuracy(net, validation) << "\n";
  }

  // A loader's place can be saved and loaded; the batch that comes next is the same.
  train.next();
  const Value place = train.state_dict();
  const Tensor next = (*train.next())[0];
  train.load_state_dict(place);
  std::cout << "resumed: " << (equal((*train.next())[0], next) ? "the same batch" : "another batch")
            << "\n";
  if (!png.empty()) {
    data::write_png(png, data::make_grid(next.slice(0, 0, 32)));
    std::cout << "wrote " << png << "\n";
  }
  const double final_accuracy = accuracy(net, validation);
  std::cout << (final_accuracy > 0.8 ? "learned" : "not learned") << "\n";
  return final_accuracy > 0.8 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
