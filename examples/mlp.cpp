// A network of linear layers learns to tell two spirals apart: a whole training program, with a
// loader, an optimizer, a learning rate that falls, and a check on points that were not trained on.
//
//   example-mlp [--brief]

#include <iostream>
#include <numbers>

#include "examples/arguments.h"
#include "tensora/data.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

// Points [N, 2] of two spirals that wind around each other, and the number of each one's spiral.
data::TensorDataset make_spirals(int64_t count) {
  const Tensor label = randint(0, 2, {count});
  const Tensor along = rand({count}).sqrt() * 3 * std::numbers::pi;  // sqrt: evenly spread
  const Tensor turn = along + label * std::numbers::pi;
  const Tensor point = stack({turn.cos(), turn.sin()}, 1) * (along / 10).unsqueeze(1);
  return data::TensorDataset(point + randn({count, 2}) * 0.02, label);
}

// Layers one after the other. Without the ReLU between them they would be one linear function.
nn::Sequential make_network(int64_t width) {
  return nn::Sequential(nn::Linear(2, width), nn::ReLU(), nn::Linear(width, width), nn::ReLU(),
                        nn::Linear(width, width), nn::ReLU(), nn::Linear(width, 2));
}

// The part of the points whose likelier class is the right one.
double accuracy(const nn::Sequential& network, data::DataLoader& loader) {
  const no_grad scope;  // nothing will be differentiated, so nothing is kept
  int64_t right = 0, all = 0;
  for (auto& batch : loader) {
    right += (argmax(network(batch[0]), 1) == batch[1]).sum().item<int64_t>();
    all += batch[1].size(0);
  }
  return double(right) / double(all);
}

// What the network says at each place of the plane.
void print_map(const nn::Sequential& network) {
  const no_grad scope;
  const int64_t width = 48, height = 20;
  const Tensor x = linspace(-1, 1, width).unsqueeze(0).expand({height, width});
  const Tensor y = linspace(1, -1, height).unsqueeze(1).expand({height, width});
  const Tensor classes = argmax(network(stack({x, y}, -1)), -1);
  const std::vector<int64_t> cells = to_vector<int64_t>(classes);
  for (size_t i = 0; i < cells.size(); ++i)
    std::cout << (cells[i] == 1 ? '#' : '.') << ((i + 1) % size_t(width) == 0 ? "\n" : "");
}

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  const bool brief = arguments.has("--brief");
  const int epochs = brief ? 30 : 100;
  manual_seed(0);

  // A fifth of the points is held back: only they show whether the network has learned the spirals
  // or just the points.
  const auto parts = data::random_split(make_spirals(brief ? 2000 : 5000), {0.8, 0.2});
  data::DataLoader training(parts[0], {.batch_size = 50, .shuffle = true});
  data::DataLoader validation(parts[1], {.batch_size = 500});

  const nn::Sequential network = make_network(64);
  std::cout << network << "\n" << network.parameter_count() << " parameters\n";
  optim::AdamW optimizer(network.parameters(), {.lr = 5e-3});
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = epochs});

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double loss_sum = 0;
    for (auto& batch : training) {
      const Tensor loss = cross_entropy(network(batch[0]), batch[1]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
    }
    schedule.step();
    if (epoch % (epochs / 5) == 0)
      std::cout << "epoch " << epoch << "  loss " << loss_sum / double(training.size())
                << "  right: training " << accuracy(network, training) << ", validation "
                << accuracy(network, validation) << "\n";
  }
  print_map(network);
  const bool learned = accuracy(network, validation) > 0.95;
  std::cout << (learned ? "learned" : "not learned") << "\n";
  return learned ? 0 : 1;
}
