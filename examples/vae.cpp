// A variational autoencoder. It learns to write an image as a few numbers, to read it from them,
// and so to make new images from random numbers.
//
// The images are discs at random places, drawn here: 16 x 16, values from 0 to 1.

#include <iostream>
#include <string_view>

#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

constexpr int64_t kSide = 16, kPixels = kSide * kSide;

// N 256: discs with soft edges.
Tensor draw_discs(int64_t count) {
  const Tensor line = linspace(-1, 1, kSide);
  const Tensor dx = line.view({1, 1, kSide}) - (rand({count, 1, 1}) - 0.5);
  const Tensor dy = line.view({1, kSide, 1}) - (rand({count, 1, 1}) - 0.5);
  const Tensor radius = rand({count, 1, 1}) * 0.3 + 0.3;
  return sigmoid((radius - (dx * dx + dy * dy).sqrt()) * 12).view({count, kPixels});
}

struct Vae : nn::Layer<Vae> {
  static constexpr int64_t kHidden = 128, kCode = 4;
  nn::Sequential encoder = register_module(
      "encoder",
      nn::Sequential(nn::Linear(kPixels, kHidden), nn::ReLU(), nn::Linear(kHidden, 2 * kCode)));
  nn::Sequential decoder = register_module(
      "decoder",
      nn::Sequential(nn::Linear(kCode, kHidden), nn::ReLU(), nn::Linear(kHidden, kPixels)));

  struct Result {
    Tensor logits, mean, log_var;
  };
  // A forward may return anything. The code of an image is a normal distribution; a point drawn
  // from it as mean + deviation * noise has gradients.
  Result forward(const Tensor& images) const {
    const std::vector<Tensor> code = encoder(images).chunk(2, 1);
    const Tensor z = code[0] + (code[1] * 0.5).exp() * randn_like(code[0]);
    return {decoder(z), code[0], code[1]};
  }
  Tensor sample(int64_t count) const { return sigmoid(decoder(randn({count, kCode}))); }
};

// How badly the images are read back, and how far the codes are from standard normal ones.
Tensor loss_of(const Vae::Result& result, const Tensor& images) {
  const Tensor reading = binary_cross_entropy_with_logits(result.logits, images, {}, "sum");
  const Tensor distance =
      (result.mean.square() + result.log_var.exp() - 1 - result.log_var).sum() * 0.5;
  return (reading + distance) / images.size(0);
}

void print_image(const Tensor& image /* 256 */) {
  const std::vector<float> pixels = to_vector<float>(image);
  for (size_t y = 0; y < kSide; y += 2) {
    for (size_t x = 0; x < kSide; ++x)
      std::cout << " .:*#"[static_cast<int>(pixels[y * kSide + x] * 4.99f)];
    std::cout << "\n";
  }
}

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--brief";
  manual_seed(1);
  Vae vae;
  optim::Adam adam(vae.parameters(), {.lr = 2e-3});
  const int steps = brief ? 200 : 4000;
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor images = draw_discs(64);
    const Tensor loss = loss_of(vae(images), images);
    adam.zero_grad();
    loss.backward();
    adam.step();
    if (step % (steps / 10) == 0 || step == steps - 1) {
      last = loss.item<double>();
      if (step == 0) first = last;
      std::cout << "step " << step << "  loss " << last << "\n";
    }
  }
  const no_grad scope;
  std::cout << "a drawn disc, and one that the network made up:\n";
  print_image(draw_discs(1)[0]);
  std::cout << std::string(kSide, '-') << "\n";
  print_image(vae.sample(1)[0]);
  return last < 0.75 * first ? 0 : 1;
}
