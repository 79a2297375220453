// Linear regression, the smallest training there is, with the flow of data explained step by step:
// tensors, the graph that they leave behind, the backward through it, and the update. First by
// hand, then with a layer and an optimizer, which do the same with the same numbers.
//
// The task: houses have three features each, and a price, price = features . w + b, plus noise. We
// see features and prices, and look for w and b.

#include <cmath>
#include <iostream>

#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

// The graph behind a tensor. Each node knows how the gradient of its result becomes gradients of
// its inputs; the leaves, where a gradient is kept, are called AccumulateGrad.
void print_graph(const Node& node, int depth = 1) {
  std::cout << std::string(2 * size_t(depth), ' ') << node.name() << "\n";
  for (const Edge& edge : node.edges())
    if (edge.node) print_graph(*edge.node, depth + 1);  // none behind an input without gradient
}

constexpr double kRate = 0.1;
constexpr int kSteps = 100;

int main() {
  manual_seed(0);

  // 1. Data. A tensor is a block of numbers of one dtype with a shape, here 256 rows of 3.
  const Tensor true_w = tensor({2.0, -1.0, 0.5});
  const double true_b = 3;
  const Tensor features = randn({256, 3});
  const Tensor prices = matmul(features, true_w) + true_b + randn({256}) * 0.1;

  // 2. Parameters: what is to be found. `requires_grad` asks every op that they go through to
  //    remember what it did. Data does not need that.
  const Tensor w = zeros({3}, {.requires_grad = true});
  const Tensor b = zeros({1}, {.requires_grad = true});

  for (int step = 0; step < kSteps; ++step) {
    // 3. Forward. Each line computes numbers at once, and adds a node to the graph.
    const Tensor predictions = matmul(features, w) + b;  // [256, 3] times [3], plus [1]: [256]
    const Tensor errors = predictions - prices;          // [256]
    const Tensor loss = (errors * errors).mean();        // one number: how wrong w and b are
    if (step == 0) {
      std::cout << "the graph of the loss, from the loss to the parameters:\n";
      print_graph(*loss.grad_fn());
    }

    // 4. Backward. The engine walks the graph from the loss to the leaves and applies the chain
    //    rule at each node. Afterwards w.grad() holds d loss / d w, in the shape of w. The graph
    //    is used up; the next step builds a new one.
    loss.backward();
    if (step == 0) {
      // Here one can check it by hand: d mean(e^2) / d w = 2 / 256 * features^T e.
      const Tensor by_hand = matmul(features.t(), errors.detach()) * (2.0 / 256);
      std::cout << "gradient by the engine " << w.grad() << ", by hand " << by_hand << "\n";
      if (!allclose(w.grad(), by_hand, 1e-4, 1e-5)) return 1;
    }

    // 5. Update. A small step against the gradient makes the loss smaller. It is no part of the
    //    computation that is differentiated, so nothing is recorded while `scope` lives. Gradients
    //    are added to those that are there; hence they are dropped.
    const no_grad scope;
    for (const Tensor& parameter : {w, b}) {
      parameter.sub_(parameter.grad() * kRate);
      parameter.set_grad({});
    }
    if (step % 20 == 0 || step == kSteps - 1)
      std::cout << "step " << step << "  loss " << loss.item<double>() << "\n";
  }
  std::cout << "found w " << w.detach() << "  b " << b.item<double>() << "\n"
            << "true  w " << true_w << "  b " << true_b << "\n";

  // 6. The same with the parts made for it: a layer holds the parameters, a loss function computes
  //    the loss, an optimizer makes the updates. All programs that train look like this.
  nn::Linear layer(3, 1);
  nn::init::zeros_(layer.weight), nn::init::zeros_(layer.bias);
  optim::SGD optimizer(layer.parameters(), {.lr = kRate});
  for (int step = 0; step < kSteps; ++step) {
    const Tensor loss = mse_loss(layer(features).squeeze(1), prices);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  std::cout << "layer w " << layer.weight.detach()[0] << "  b " << layer.bias.item<double>()
            << "\n";

  const bool found = allclose(w, true_w, 0, 0.03) && std::abs(b.item<double>() - true_b) < 0.03;
  const bool same = allclose(layer.weight[0], w, 1e-4, 1e-5);
  std::cout << (found ? "found" : "not found") << ", and the layer "
            << (same ? "agrees" : "differs") << "\n";
  return found && same ? 0 : 1;
}
