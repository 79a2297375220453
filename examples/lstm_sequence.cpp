// An LSTM learns to remember: the adding problem. A sequence has a random number and a mark at each
// step; two steps are marked, and the answer is the sum of their numbers. A network without memory
// can do no better than to guess the mean, with an error of 1/6.
//
// It shows a recurrent layer, its states, and the clipping of gradients: a gradient that goes back
// through many steps can become huge.
//
//   example-lstm_sequence [--brief]

#include <iostream>

#include "examples/arguments.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

struct Sequences {
  Tensor inputs;  // B T 2: numbers from 0 to 1, and marks 0 or 1
  Tensor sums;    // B
};

// One mark in each half of the sequence.
Sequences draw(int64_t count, int64_t length) {
  const Tensor numbers = rand({count, length});
  const int64_t half = length / 2;
  const Tensor marks = cat({one_hot(randint(0, half, {count}), half),
                            one_hot(randint(0, length - half, {count}), length - half)},
                           1)
                           .to(kFloat32);
  return {stack({numbers, marks}, 2), (numbers * marks).sum(1)};
}

struct Adder : nn::Layer<Adder> {
  static constexpr int64_t kHidden = 48;
  nn::LSTM lstm = register_module("lstm", nn::LSTM(2, kHidden, {.batch_first = true}));
  nn::Linear head = register_module("head", nn::Linear(kHidden, 1));

  // An LSTM returns its output at every step (B T H) and its last states: hidden ones and cells,
  // each [layers, B, H]. The answer is read from the last hidden state of the only layer.
  Tensor forward(const Tensor& inputs) const {
    const auto [outputs, states] = lstm(inputs);
    return head(std::get<0>(states)[0]).squeeze(1);
  }
};

int main(int argc, char** argv) {
  const bool brief = Arguments(argc, argv).has("--brief");
  const int64_t length = brief ? 10 : 50;
  const int steps = brief ? 600 : 5000;
  manual_seed(0);
  Adder adder;
  // The four gates' biases lie one after the other: input, forget, cell, output. A forget gate that
  // starts open lets the network remember from the beginning.
  {
    const no_grad scope;
    adder.get_parameter("lstm.bias_ih_l0").slice(0, Adder::kHidden, 2 * Adder::kHidden).fill_(1);
  }
  optim::Adam optimizer(adder.parameters(), {.lr = brief ? 1e-2 : 3e-3});
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = steps});

  std::cout << "sequences of " << length << " steps; guessing the mean gives " << 1 / 6.0 << "\n";
  for (int step = 1; step <= steps; ++step) {
    const Sequences batch = draw(64, length);
    const Tensor loss = mse_loss(adder(batch.inputs), batch.sums);
    optimizer.zero_grad();
    loss.backward();
    // Scales all gradients together, if need be, so that their norm is at most 1.
    const Tensor norm = nn::utils::clip_grad_norm_(adder.parameters(), 1.0);
    optimizer.step();
    schedule.step();
    if (step % (steps / 6) == 0)
      std::cout << "step " << step << "  error " << loss.item<double>() << "  gradient norm "
                << norm.item<double>() << std::endl;
  }

  const no_grad scope;
  const Sequences fresh = draw(1000, length);
  const Tensor answers = adder(fresh.inputs);
  for (int64_t i = 0; i < 3; ++i)
    std::cout << "true sum " << fresh.sums[i].item<float>() << ", answer "
              << answers[i].item<float>() << "\n";
  const double error = mse_loss(answers, fresh.sums).item<double>();
  std::cout << "error on new sequences " << error << "\n";
  return error < 0.02 ? 0 : 1;
}
