// An optimizer of your own: AdaBelief (Zhuang et al., 2020). It takes large steps where the
// gradient is what its running mean leads one to believe, and small ones where it surprises.
//
// It is one class with one function, `update`. Groups with options of their own, schedulers, saving
// and loading come from the base; docs/add-an-optimizer.md says more.

#include <cmath>
#include <iostream>

#include "examples/arguments.h"
#include "tensora/nn.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

using namespace tensora;

struct AdaBeliefOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

class AdaBelief : public optim::Optimizer {
 public:
  // The base gets a name for messages, the parameters, all options with their values, and a
  // function that rejects values out of range.
  explicit AdaBelief(optim::Parameters params, const AdaBeliefOptions& options = {})
      : Optimizer("AdaBelief", std::move(params),
                  {{"lr", options.lr},
                   {"betas", Value::List{options.beta1, options.beta2}},
                   {"eps", options.eps},
                   {"weight_decay", options.weight_decay}},
                  check_options) {}

 protected:
  // Steps the parameters of one group. Nothing here is recorded, and nothing is read back from the
  // device: the step counter is a number of the host.
  void update(optim::ParamGroup& group) override {
    const double beta1 = group.number("betas", 0), beta2 = group.number("betas", 1);
    for (const Tensor& param : group.params) {
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;  // it took no part in the loss
      Value& memory = state(param);   // empty at first; saved and loaded with the optimizer
      if (!memory.contains("step")) {
        memory["step"] = 0;
        memory["mean"] = optim::zero_state(param);
        memory["surprise"] = optim::zero_state(param);
      }
      const int64_t step = memory.at("step").to_int() + 1;
      memory["step"] = step;
      const Tensor& mean = memory.at("mean").to_tensor();
      const Tensor& surprise = memory.at("surprise").to_tensor();

      mean.lerp_(grad, 1 - beta1);
      const Tensor deviation = grad - mean;
      surprise.mul_(beta2).addcmul_(deviation, deviation, 1 - beta2).add_(group.number("eps"));
      // Both means start at 0 and are too small at first; the divisors make up for it.
      const Tensor scale =
          (surprise / (1 - std::pow(beta2, step))).sqrt_().add_(group.number("eps"));
      param.mul_(1 - group.lr() * group.number("weight_decay"));
      param.addcdiv_(mean, scale, -group.lr() / (1 - std::pow(beta1, step)));
    }
  }

 private:
  static void check_options(const std::string& name, const optim::ParamGroup& group) {
    check(group.lr() >= 0, name, ": lr must not be negative, got ", group.lr());
    for (const int i : {0, 1})
      check(group.number("betas", i) >= 0 && group.number("betas", i) < 1, name,
            ": betas must be at least 0 and below 1, got ", group.number("betas", i));
  }
};

// One step towards a curve; returns the loss before it.
double step_towards_curve(const nn::Sequential& network, optim::Optimizer& optimizer) {
  const Tensor x = linspace(-1, 1, 256).unsqueeze(1), y = (x * 6).sin() * x;
  const Tensor loss = mse_loss(network(x), y);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

double fit(const nn::Sequential& network, optim::Optimizer& optimizer, int steps) {
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = steps});  // works with any optimizer
  double loss = 0;
  for (int i = 0; i < steps; ++i, schedule.step()) loss = step_towards_curve(network, optimizer);
  return loss;
}

// Whether an optimizer that loads the state of another steps exactly as that one does.
bool resumes(const nn::Sequential& network) {
  AdaBelief optimizer(network.parameters(), {.lr = 1e-3});
  for (int i = 0; i < 3; ++i) step_towards_curve(network, optimizer);
  const nn::Sequential copy = network.clone();
  AdaBelief resumed(copy.parameters());
  resumed.load_state_dict(optimizer.state_dict());
  for (int i = 0; i < 3; ++i) {
    const double loss = step_towards_curve(network, optimizer);
    if (step_towards_curve(copy, resumed) != loss) return false;
  }
  return true;
}

int main(int argc, char** argv) {
  const int steps = Arguments(argc, argv).has("--brief") ? 300 : 3000;
  manual_seed(0);
  const nn::Sequential network(nn::Linear(1, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                               nn::Linear(64, 1));
  const nn::Sequential same = network.clone();

  // Two groups: weight decay only for the matrices.
  optim::ParamGroup matrices{.params = {}, .options = {{"weight_decay", 1e-4}}}, vectors;
  for (const Tensor& parameter : network.parameters())
    (parameter.dim() > 1 ? matrices : vectors).params.push_back(parameter);
  AdaBelief belief({matrices, vectors}, {.lr = 1e-2});
  optim::SGD sgd(same.parameters(), {.lr = 1e-2});
  std::cout << belief.to_string() << "\n";

  const double by_belief = fit(network, belief, steps), by_sgd = fit(same, sgd, steps);
  std::cout << "loss after " << steps << " steps: AdaBelief " << by_belief << ", SGD " << by_sgd
            << "\n";
  const bool is_same = resumes(network);
  std::cout << "a loaded optimizer goes on " << (is_same ? "exactly" : "differently") << "\n";
  try {
    AdaBelief(network.parameters(), {.beta1 = 1.5});
  } catch (const Error& error) {
    std::cout << error.what() << "\n";
  }
  return is_same && by_belief < by_sgd / 3 ? 0 : 1;
}
