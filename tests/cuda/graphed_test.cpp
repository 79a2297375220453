// Whole training steps as one graph: the course of training is that of eager code.
#include "tensora/backend/cuda/runtime/graphed.h"

#include "tensora/amp/grad_scaler.h"
#include "tensora/autograd/checkpoint.h"
#include "tensora/dispatch/autocast.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class GraphedOnGpu : public Gpu {};

struct Scaling {
  Tensor grad_scale, found_inf;
};

// AdamW whose step is counted on the device.
struct Optimizer {
  std::vector<Tensor> params, first, second;
  Tensor count = zeros({}, {.device = kCuda});

  explicit Optimizer(const std::vector<Tensor>& given) : params(given) {
    for (const Tensor& p : params) {
      first.push_back(zeros_like(p.detach()));
      second.push_back(zeros_like(p.detach()));
    }
  }
  std::vector<Tensor> parameters() const { return params; }
  bool supports_grad_scaling() const { return true; }
  void zero_grad() const {
    for (const Tensor& p : params) p.set_grad({});
  }
  void step() { step({}); }
  void step(const Scaling& scaling) {
    std::vector<Tensor> grads;
    for (const Tensor& p : params) grads.push_back(p.grad());
    count.add_(1);
    fused_adamw_(
        params, grads, first, second, {}, {.lr = 0.05},
        {.state_step = count, .grad_scale = scaling.grad_scale, .found_inf = scaling.found_inf});
  }
};

struct Network {
  Tensor w1 = (sample({16, 8}) * 0.3).cuda().requires_grad_();
  Tensor w2 = (sample({4, 16}) * 0.3).cuda().requires_grad_();
  Optimizer optimizer{{w1, w2}};
  amp::GradScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  bool half = false, scaled = false, checkpointed = false;
  double dropped = 0;
  int runs = 0;

  Tensor forward(const Tensor& x) const {
    return linear(dropout(tanh(linear(x, w1)), dropped, dropped > 0), w2);
  }
  Tensor step(const TensorList& in) {
    ++runs;
    optimizer.zero_grad();
    Tensor loss;
    {
      const autocast cast({.dtype = kBFloat16, .enabled = half});
      const Tensor y = checkpointed
                           ? checkpoint([this](const Tensor& x) { return forward(x); }, in[0])
                           : forward(in[0]);
      loss = mse_loss(y, in[1]);
    }
    if (!scaled) {
      loss.backward();
      optimizer.step();
      return loss;
    }
    scaler.scale(loss).backward();
    scaler.step(optimizer);
    scaler.update();
    return loss;
  }
};

std::vector<TensorList> batches(bool on_host) {
  std::vector<TensorList> result;
  for (int i = 0; i < 10; ++i) {
    const Tensor x = sample({32, 8}) * (1 + 0.1 * i), y = sample({32, 4}, kFloat32, -1, 1) * i;
    result.push_back(on_host ? TensorList{x, y} : TensorList{x.cuda(), y.cuda()});
  }
  return result;
}

// Trains a network and its twin, eagerly and as a graph, and compares all losses and weights.
template <class Change>
void compare(const Change& change, bool on_host = false) {
  Network eager, recorded;
  change(eager);
  change(recorded);
  const std::vector<TensorList> data = batches(on_host);
  TensorList expected, losses;
  manual_seed(11);
  for (const TensorList& batch : data)
    expected.push_back(eager.step({batch[0].cuda(), batch[1].cuda()}).detach());
  manual_seed(11);
  auto step = cuda::graphed([&](const TensorList& in) { return recorded.step(in); }, data[0],
                            {.warmup = 2});
  EXPECT_FALSE(step.is_recorded());
  for (const TensorList& batch : data) losses.push_back(step(batch));
  EXPECT_TRUE(step.is_recorded());
  EXPECT_GT(step.node_count(), 10u);
  EXPECT_EQ(recorded.runs, 3);  // two eager ones and the recording
  for (size_t i = 0; i < data.size(); ++i) expect_close(losses[i], expected[i], 1e-6);
  expect_close(recorded.w1, eager.w1, 1e-6);
  expect_close(recorded.w2, eager.w2, 1e-6);
  EXPECT_EQ(recorded.scaler.get_scale(), eager.scaler.get_scale());
}

TEST_F(GraphedOnGpu, TrainsAsEagerCodeDoes) {
  compare([](Network&) {});
}
TEST_F(GraphedOnGpu, TakesInputsFromTheHost) {
  compare([](Network&) {}, true);
}
TEST_F(GraphedOnGpu, WithAutocast) {
  compare([](Network& net) { net.half = true; });
}
TEST_F(GraphedOnGpu, WithAScaler) {
  compare([](Network& net) { net.half = net.scaled = true; });
}
TEST_F(GraphedOnGpu, WithDropout) {
  compare([](Network& net) { net.dropped = 0.5; });
}
TEST_F(GraphedOnGpu, WithACheckpoint) {
  compare([](Network& net) {
    net.checkpointed = net.half = true;
    net.dropped = 0.5;
  });
}

TEST_F(GraphedOnGpu, WithinAnAutocastScope) {
  Network eager, recorded;
  const std::vector<TensorList> data = batches(false);
  auto step = cuda::graphed([&](const TensorList& in) { return recorded.step(in); }, data[0]);
  const autocast around(kBFloat16);  // its casts belong to no replay
  eager.half = recorded.half = true;
  for (const TensorList& batch : data) expect_close(step(batch), eager.step(batch).detach(), 1e-6);
}

TEST_F(GraphedOnGpu, AStepWithAnInfiniteGradientIsLeftOut) {
  Network net;
  net.scaled = true;
  const std::vector<TensorList> data = batches(false);
  auto step = cuda::graphed([&](const TensorList& in) { return net.step(in); }, data[0]);
  for (int i = 0; i < 5; ++i) step(data[1]);
  const Tensor before = net.w1.detach().clone();
  const double scale = net.scaler.get_scale();
  step({full({32, 8}, 1e38, {.device = kCuda}), full({32, 4}, 1e38, {.device = kCuda})});
  expect_close(net.w1, before, 0);
  EXPECT_EQ(net.scaler.get_scale(), scale / 2);
  step(data[1]);
  EXPECT_GT((net.w1 - before).abs().amax().item<double>(), 0);
}

TEST_F(GraphedOnGpu, SeveralResults) {
  auto step = cuda::graphed(
      [](const TensorList& in) {
        return TensorList{in[0] + 1, in[0] * 2};
      },
      {zeros({3})}, {.warmup = 1});
  for (double value : {1.0, 2.0, 3.0}) {
    const TensorList results = step({full({3}, value)});
    expect_close(results[0], full({3}, value + 1), 0);
    expect_close(results[1], full({3}, value * 2), 0);
  }
}

TEST_F(GraphedOnGpu, MistakesAreNamed) {
  const auto twice = [](const TensorList& in) { return in[0] * 2; };
  auto step = cuda::graphed(twice, {zeros({4, 2})}, {.warmup = 1});
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(message_of([&] { step({}); }), "expected 1 inputs, got 0");
  says(message_of([&] { step({zeros({3, 2})}); }), "float32 of shape [4, 2], got float32 of shape");
  says(message_of([&] { step({zeros({4, 2}, {.dtype = kInt64})}); }), "got int64");
  says(message_of([&] { step({Tensor()}); }), "input 0 is undefined");
  says(message_of([&] { cuda::graphed(twice, {zeros({1})}, {.warmup = 0}); }), "warmup");
  says(message_of([&] { cuda::graphed(twice, {zeros({1}).requires_grad_()}); }), "requires grad");
  auto reads =
      cuda::graphed([](const TensorList& in) { return in[0] * in[0].sum().item<double>(); },
                    {ones({2})}, {.warmup = 1});
  expect_close(reads({ones({2})}), full({2}, 2.0), 0);
  says(message_of([&] { reads({ones({2})}); }), "cannot be part of a graph");
  auto host = cuda::graphed([](const TensorList& in) { return in[0].cpu(); }, {ones({2})});
  says(message_of([&] { host({ones({2})}); }), "returned a tensor on cpu");
  expect_close(step({ones({4, 2})}), full({4, 2}, 2.0), 0);
}

}  // namespace
}  // namespace tensora::test
