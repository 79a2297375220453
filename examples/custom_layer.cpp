// A layer of one's own: parameters, a buffer, smaller layers, and what follows from them.
//
// The layer adds to its input what a low-rank product of it says, times a gate that is learned:
//   y = x + gate * (x A B), scaled by a running mean of the input's magnitude.

#include <cmath>
#include <iostream>
#include <string_view>

#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

struct LowRankOptions {
  int64_t rank = 4;
  double momentum = 0.1;
};

// A layer derives from Layer<itself>. Each part gets its name where it is made; the member is a
// handle to it.
class LowRank : public nn::Layer<LowRank> {
 public:
  explicit LowRank(int64_t features, LowRankOptions given = {}) : options(given) {
    down = register_module("down", nn::Linear(features, options.rank, {.bias = false}));
    up = register_module("up", nn::Linear(options.rank, features));
    gate = register_parameter("gate", zeros({features}));
    magnitude = register_buffer("magnitude", ones({}));
  }

  Tensor forward(const Tensor& x) const {
    if (is_training()) {  // as batch norm does: the statistics are no part of the graph
      const no_grad scope;
      magnitude.lerp_(x.abs().mean(), options.momentum);
    }
    return x + gate * up(down(x / magnitude));
  }

  // Printed between the parentheses.
  std::string extra_repr() const override { return "rank=" + std::to_string(options.rank); }

  LowRankOptions options;
  nn::Linear down{0, 0}, up{0, 0};
  nn::Parameter gate;
  nn::Buffer magnitude;
};

// A network is a layer too.
struct Net : nn::Layer<Net> {
  nn::Sequential body = register_module(
      "body", nn::Sequential(nn::Linear(2, 32), nn::Tanh(), LowRank(32), nn::Tanh(), LowRank(32)));
  nn::Linear head = register_module("head", nn::Linear(32, 1));
  Tensor forward(const Tensor& x) const { return head(body(x)); }
};

int main(int argc, char** argv) {
  const bool brief = argc > 1 && std::string_view(argv[1]) == "--brief";
  manual_seed(1);
  Net net;
  std::cout << net << "\n" << net.parameter_count() << " parameters\n";

  // To learn: a saddle with a ripple.
  const auto sample = [](int64_t count) {
    const Tensor x = rand({count, 2}) * 4 - 2;
    const Tensor a = x.select(1, 0), b = x.select(1, 1);
    return std::pair(x, (a * b + (a * 3).sin() * 0.3).unsqueeze(1));
  };
  optim::Adam adam(net.parameters(), {.lr = 5e-3});
  const int steps = brief ? 300 : 3000;
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const auto [x, y] = sample(128);
    const Tensor loss = mse_loss(net(x), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
    if (step % (steps / 10) == 0 || step == steps - 1) {
      last = loss.item<double>();
      if (step == 0) first = last;
      std::cout << "step " << step << "  loss " << last << "\n";
    }
  }

  // The parts that were registered are saved, loaded and copied like those of any layer.
  for (const auto& [name, tensor] : net.state_dict())
    std::cout << name << " " << tensor.sizes() << "\n";
  Net other;
  other.load_state_dict(net.state_dict());
  const Net copy = net.clone();
  net.eval(), other.eval();
  const Tensor x = sample(8).first;
  const bool equal = net(x).equal(other(x)) && !copy.head.weight.is_same(net.head.weight);
  std::cout << (equal ? "the loaded copy computes the same\n" : "the loaded copy differs\n");
  return equal && last < first / 5 ? 0 : 1;
}
