// Functions with a backward of your own. Two reasons to write one:
//
//   LogCosh    the gradient has a simpler or more precise formula than the engine would find
//   Round      the true gradient is of no use, and another one shall take its place
//
// The first is checked by finite differences, the second trains weights that are whole numbers.

#include <cmath>
#include <iostream>
#include <numbers>

#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

// log(cosh(x)), a loss that is quadratic near 0 and linear far away. cosh would overflow; with
// exp(-2 |x|) nothing can. The gradient is tanh(x).
struct LogCosh : Function<LogCosh> {
  // Runs without recording. What backward needs of the arguments goes into the context.
  static Tensor forward(Context& context, const Tensor& x) {
    context.save_for_backward({x});
    const Tensor magnitude = x.abs();
    return magnitude + (magnitude * -2).exp().log1p() - std::numbers::ln2;
  }
  // Gets the gradient of the loss by each output, and returns that by each argument: times the
  // derivative, by the chain rule. It consists of differentiable ops, so it can itself be
  // differentiated.
  static TensorList backward(Context& context, const TensorList& grads) {
    return {grads[0] * context.saved_tensors()[0].tanh()};
  }
};

// Rounds to multiples of `step`. The result is a staircase, whose gradient is 0 almost everywhere;
// nothing could be learned through it. So backward passes on the gradient as if nothing had been
// rounded. An argument that is no tensor gets an undefined gradient.
struct Round : Function<Round> {
  static Tensor forward(Context&, const Tensor& x, double step) {
    return (x / step).round() * step;
  }
  static TensorList backward(Context&, const TensorList& grads) { return {grads[0], Tensor()}; }
};

// The gradient of f(x).sum() as (f(x + h) - f(x - h)) / 2h, for functions of single elements. In
// float64 this is right to about ten digits.
template <class F>
Tensor numeric_gradient(const F& f, const Tensor& x) {
  const no_grad scope;
  const double h = 1e-5;
  return (f(x + h) - f(x - h)) / (2 * h);
}

bool check_log_cosh() {
  const auto log_cosh = [](const Tensor& x) { return LogCosh::apply(x); };
  const Tensor x = linspace(-3, 3, 7, {.dtype = kFloat64}).requires_grad_();
  // `create_graph` records the backward too, for the second derivative.
  const Tensor first = grad(log_cosh(x).sum(), {x}, {.create_graph = true})[0];
  const Tensor second = grad(first.sum(), {x})[0];
  const auto slope = [](const Tensor& at) { return at.tanh(); };
  std::cout << "x                 " << x.detach() << "\nby backward       " << first.detach()
            << "\nnumerically       " << numeric_gradient(log_cosh, x) << "\nsecond derivative "
            << second << "\n";
  const Tensor large = LogCosh::apply(tensor({1000.0}));
  return allclose(first, numeric_gradient(log_cosh, x), 1e-7, 1e-9) &&
         allclose(second, numeric_gradient(slope, x), 1e-7, 1e-9) &&
         std::abs(large.item<double>() - 999.30685) < 1e-3;
}

// Weights that are multiples of 1 predict y; the optimizer moves the numbers behind them, which are
// rounded on the way. With x.round() instead they would never move.
bool train_whole_numbers() {
  const Tensor true_weight = tensor({3.0, -2.0, 0.0, 5.0});
  const Tensor hidden = zeros({4}, {.requires_grad = true});
  optim::SGD optimizer({hidden}, {.lr = 0.05});
  for (int step = 0; step < 200; ++step) {
    const Tensor x = randn({64, 4});
    const Tensor difference = matmul(x, Round::apply(hidden, 1.0)) - matmul(x, true_weight);
    const Tensor loss = LogCosh::apply(difference).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  const Tensor found = Round::apply(hidden.detach(), 1.0);
  std::cout << "weights found " << found << ", behind them " << hidden.detach() << "\n";
  return equal(found, true_weight);
}

int main() {
  manual_seed(0);
  const bool right = check_log_cosh(), learned = train_whole_numbers();
  std::cout << (right ? "gradients agree" : "gradients differ") << ", "
            << (learned ? "learned" : "not learned") << "\n";
  return right && learned ? 0 : 1;
}
