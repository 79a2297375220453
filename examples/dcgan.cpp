// A generative adversarial network of convolutions. A generator turns noise into images; a
// discriminator learns to tell them from real ones; the generator learns to deceive it.
//
// The real images are bright squares on a dark ground, 16 x 16, values from -1 to 1.

#include <cmath>
#include <iostream>
#include <string_view>

#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

constexpr int64_t kSide = 16, kNoise = 16;

// N 1 16 16: squares of random place and size.
Tensor draw_squares(int64_t count) {
  const Tensor line = linspace(-1, 1, kSide);
  const Tensor half = rand({count, 1, 1, 1}) * 0.2 + 0.3;
  const auto inside = [&](const Tensor& at) {
    return ((at - (rand({count, 1, 1, 1}) - 0.5)).abs() < half).to(kFloat32);
  };
  const Tensor x = inside(line.view({1, 1, 1, kSide})), y = inside(line.view({1, 1, kSide, 1}));
  return x * y * 2 - 1;
}

// A transposed convolution of stride 2 doubles the sides; batch norm follows, so no bias is needed.
nn::Sequential make_generator(int64_t width) {
  return nn::Sequential(
      nn::Unflatten(1, {kNoise, 1, 1}), nn::ConvTranspose2d(kNoise, 2 * width, 4, {.bias = false}),
      nn::BatchNorm2d(2 * width), nn::ReLU({.inplace = true}),
      nn::ConvTranspose2d(2 * width, width, 4, {.stride = 2, .padding = 1, .bias = false}),
      nn::BatchNorm2d(width), nn::ReLU({.inplace = true}),
      nn::ConvTranspose2d(width, 1, 4, {.stride = 2, .padding = 1}), nn::Tanh());
}

nn::Sequential make_discriminator(int64_t width) {
  const nn::LeakyReLUOptions leaky = {.negative_slope = 0.2, .inplace = true};
  return nn::Sequential(nn::Conv2d(1, width, 4, {.stride = 2, .padding = 1}), nn::LeakyReLU(leaky),
                        nn::Conv2d(width, 2 * width, 4, {.stride = 2, .padding = 1, .bias = false}),
                        nn::BatchNorm2d(2 * width), nn::LeakyReLU(leaky),
                        nn::Conv2d(2 * width, 1, 4), nn::Flatten());
}

// The starting values of the DCGAN paper.
void start(nn::Sequential& net) {
  net.apply([](nn::Module& module) {
    if (auto* conv = dynamic_cast<nn::Conv2d*>(&module)) nn::init::normal_(conv->weight, 0, 0.02);
    if (auto* up = dynamic_cast<nn::ConvTranspose2d*>(&module))
      nn::init::normal_(up->weight, 0, 0.02);
    if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(&module))
      nn::init::normal_(norm->weight, 1, 0.02);
  });
}

void print_image(const Tensor& image /* 1 16 16 */) {
  const std::vector<float> pixels = to_vector<float>(image);
  for (size_t y = 0; y < kSide; y += 2) {
    for (size_t x = 0; x < kSide; ++x)
      std::cout << " .:*#"[static_cast<int>((pixels[y * kSide + x] + 1) * 2.49f)];
    std::cout << "\n";
  }
}

// How much the mean image of one batch differs from that of another.
double difference(const Tensor& a, const Tensor& b) {
  const no_grad scope;
  return (a.mean(0) - b.mean(0)).abs().mean().item<double>();
}

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--brief";
  const int64_t width = brief ? 16 : 32, batch = 64;
  const int steps = brief ? 120 : 2000;
  manual_seed(1);
  nn::Sequential generator = make_generator(width), discriminator = make_discriminator(width);
  start(generator), start(discriminator);
  const optim::AdamOptions settings = {.lr = brief ? 1e-3 : 2e-4, .betas = {0.5, 0.999}};
  optim::Adam step_generator(generator.parameters(), settings);
  optim::Adam step_discriminator(discriminator.parameters(), settings);
  const nn::BCEWithLogitsLoss loss_of;
  const Tensor real = ones({batch, 1}), fake = zeros({batch, 1});

  const Tensor truth = draw_squares(1000);
  const double before = difference(generator(randn({1000, kNoise})), truth);
  for (int step = 0; step < steps; ++step) {
    const Tensor made = generator(randn({batch, kNoise}));
    step_discriminator.zero_grad();
    const Tensor loss = loss_of(discriminator(draw_squares(batch)), real) +
                        loss_of(discriminator(made.detach()), fake);
    loss.backward();
    step_discriminator.step();

    step_generator.zero_grad();
    const Tensor deceit = loss_of(discriminator(made), real);
    deceit.backward();
    step_generator.step();
    if (step % (steps / 8) == 0)
      std::cout << "step " << step << "  discriminator " << loss.item<double>() << "  generator "
                << deceit.item<double>() << "\n";
  }

  generator.eval();
  const no_grad scope;
  const Tensor images = generator(randn({1000, kNoise}));
  std::cout << "a drawn square, and two that the network made up:\n";
  print_image(truth[0]);
  for (int64_t i = 0; i < 2; ++i) {
    std::cout << std::string(kSide, '-') << "\n";
    print_image(images[i]);
  }
  const double after = difference(images, truth);
  std::cout << "distance of the mean image from the true one: " << before << " before, " << after
            << " after\n";
  return after < 0.7 * before ? 0 : 1;
}
