// Trains a small classifier on a synthetic data set: two interleaved spirals that no straight line
// can separate. With --info, prints what the library is and found on this machine.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "tensora/ops/optim/adam.h"
#include "tensora/tensora.h"

using namespace tensora;

namespace {

constexpr int64_t kClasses = 3;

struct Dataset {
  Tensor points;  // N 2
  Tensor labels;  // N
};

// Each class is one arm of a spiral, with noise in the angle.
Dataset make_spirals(int64_t per_class) {
  const int64_t count = kClasses * per_class;
  const Tensor labels = arange(0, count).div(per_class, "floor").to(kInt64);
  const Tensor radius = arange(0, count).remainder(per_class).to(kFloat32) / double(per_class);
  const Tensor angle = labels * (2 * M_PI / double(kClasses)) + radius * 6 + randn({count}) * 0.15;
  return {stack({radius * sin(angle), radius * cos(angle)}, 1), labels};
}

class Classifier {
 public:
  Classifier() {
    for (const auto& [out, in] : {std::pair<int64_t, int64_t>{64, 2}, {64, 64}, {kClasses, 64}}) {
      add_parameter((rand({out, in}) * 2 - 1) * std::sqrt(6.0 / double(in)));
      add_parameter(zeros({out}));
    }
  }

  Tensor logits(const Tensor& x) const {
    Tensor h = relu(linear(x, weights_[0], weights_[1]));
    h = relu(linear(h, weights_[2], weights_[3]));
    return linear(h, weights_[4], weights_[5]);
  }

  double train_step(const Tensor& x, const Tensor& labels) {
    const Tensor scores = logits(x);
    const Tensor log_probabilities = scores - logsumexp(scores, {1}, true);
    const Tensor loss = -mean(gather(log_probabilities, 1, unsqueeze(labels, 1)));
    loss.backward();
    ++steps_;
    for (size_t i = 0; i < weights_.size(); ++i) {
      adam_(weights_[i], averages_[i], squares_[i], weights_[i].grad(),
            {.lr = 3e-3, .step = steps_});
      weights_[i].set_grad({});
    }
    return loss.item<double>();
  }

  double accuracy(const Dataset& data) const {
    const no_grad silent;
    const Tensor predicted = argmax(logits(data.points), 1);
    return mean(eq(predicted, data.labels).to(kFloat32)).item<double>();
  }

 private:
  void add_parameter(const Tensor& initial) {
    weights_.push_back(initial.detach().requires_grad_());
    averages_.push_back(zeros_like(initial));
    squares_.push_back(zeros_like(initial));
  }

  std::vector<Tensor> weights_, averages_, squares_;
  int64_t steps_ = 0;
};

void show_progress(int epoch, int epochs, double loss, double accuracy) {
  constexpr int kWidth = 30;
  std::string bar(static_cast<size_t>(kWidth), '.');
  for (int i = 0; i < kWidth * epoch / epochs; ++i) bar[static_cast<size_t>(i)] = '#';
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (!terminal && epoch % 10 != 0) return;  // in a log, a few lines are enough
  std::printf("%s[%s] epoch %3d/%d  loss %.4f  accuracy %5.1f %%%s", terminal ? "\r" : "",
              bar.c_str(), epoch, epochs, loss, 100 * accuracy,
              terminal && epoch != epochs ? "" : "\n");
  std::fflush(stdout);
}

int run() {
  manual_seed(7);
  const Dataset train = make_spirals(1000), test = make_spirals(300);
  Classifier model;
  constexpr int kEpochs = 60;
  constexpr int64_t kBatch = 100;
  const int64_t count = train.points.size(0);
  std::printf("Training a 2-64-64-%lld classifier on %lld points of %lld spirals (%d threads)\n",
              static_cast<long long>(kClasses), static_cast<long long>(count),
              static_cast<long long>(kClasses), get_num_threads());
  double accuracy = 0;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const Tensor order = randperm(count);
    double loss = 0;
    for (int64_t at = 0; at < count; at += kBatch) {
      const Tensor batch = narrow(order, 0, at, kBatch);
      loss += model.train_step(index_select(train.points, 0, batch),
                               index_select(train.labels, 0, batch));
    }
    accuracy = model.accuracy(test);
    show_progress(epoch, kEpochs, loss * double(kBatch) / double(count), accuracy);
  }
  std::printf("Final accuracy on %lld unseen points: %.1f %%\n",
              static_cast<long long>(test.points.size(0)), 100 * accuracy);
  return accuracy > 0.9 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count == 1) return run();
    if (count == 2 && std::string_view(arguments[1]) == "--info") {
      std::printf("%s", build_info().to_string().c_str());
      return 0;
    }
    std::fprintf(stderr, "usage: tensora-demo [--info]\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensora-demo: %s\n", error.what());
    return 1;
  }
}
