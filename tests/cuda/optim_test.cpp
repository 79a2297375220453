// Optimizers on the GPU: the same steps as on the CPU, eager, recorded in a graph, and with scaled
// gradients whose scale only the device knows.
#include "tensora/optim.h"

#include "tensora/backend/cuda/runtime/graph.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using namespace optim;

class OptimOnGpu : public Gpu {};

using Make = std::function<std::unique_ptr<Optimizer>(Parameters)>;
template <class Kind, class Options>
Make maker(Options options) {
  return [options](Parameters params) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Kind>(std::move(params), options);
  };
}

std::vector<Make> capturable() {
  return {maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .capturable = true}),
          maker<AdamW>(AdamWOptions{.lr = 0.1, .amsgrad = true, .capturable = true}),
          maker<Adam>(AdamOptions{.lr = 0.1, .weight_decay = 0.1, .capturable = true}),
          maker<RMSprop>(RMSpropOptions{.lr = 0.1, .momentum = 0.5, .capturable = true}),
          maker<Adagrad>(AdagradOptions{.lr = 0.1, .lr_decay = 0.1, .capturable = true}),
          maker<Adadelta>(AdadeltaOptions{.capturable = true}),
          maker<Adamax>(AdamaxOptions{.lr = 0.1, .capturable = true}),
          maker<NAdam>(NAdamOptions{.lr = 0.1, .capturable = true}),
          maker<RAdam>(RAdamOptions{.lr = 0.1, .capturable = true}),
          maker<Lion>(LionOptions{.lr = 0.1, .weight_decay = 0.1, .capturable = true})};
}

// Two parameters with a gradient that follows from them, and an optimizer.
struct Training {
  std::vector<Tensor> params;
  std::unique_ptr<Optimizer> optimizer;

  Training(const Make& make, Device device) {
    for (int64_t size : {37, 5000})
      params.push_back((arange(size, {.device = device}).to(kFloat32) * (2.0 / double(size)) - 0.7)
                           .requires_grad_());
    optimizer = make(params);
  }
  void set_grads() const {
    const no_grad guard;
    for (const Tensor& p : params) p.set_grad(p.detach() * 0.7 + 0.1);
  }
  void step() const {
    set_grads();
    optimizer->step();
  }
  void expect_like(const Training& other) const {
    for (size_t i = 0; i < params.size(); ++i) {
      SCOPED_TRACE(optimizer->name());
      expect_close(params[i].detach(), other.params[i].detach().cpu(), 1e-4);
    }
  }
};

TEST_F(OptimOnGpu, StepsAsTheCpuDoes) {
  for (const Make& make : capturable()) {
    const Training there(make, kCuda), here(make, Device(DeviceType::cpu));
    for (int i = 0; i < 8; ++i) {
      there.step();
      here.step();
    }
    there.expect_like(here);
  }
}

TEST_F(OptimOnGpu, AGraphCountsItsReplaysAndReadsTheRate) {
  for (const Make& make : capturable()) {
    const Training there(make, kCuda), here(make, Device(DeviceType::cpu));
    for (int i = 0; i < 2; ++i) {  // all states must exist before the recording
      there.step();
      here.step();
    }
    cuda::Graph graph;
    graph.capture([&] { there.step(); });
    for (int i = 0; i < 6; ++i) {
      const double lr = 0.1 / (i + 1);
      there.optimizer->param_groups()[0].set_lr(lr);
      here.optimizer->param_groups()[0].set_lr(lr);
      graph.replay();
      here.step();
    }
    there.expect_like(here);
  }
}

TEST_F(OptimOnGpu, ScaledGradients) {
  const auto number = [](double value) { return full({}, value, {.device = kCuda}); };
  for (const Make& make : capturable()) {
    const Training there(make, kCuda), here(make, Device(DeviceType::cpu));
    for (int i = 0; i < 5; ++i) {
      there.set_grads();
      for (const Tensor& p : there.params) p.set_grad(p.grad() * 8);
      if (i > 0)
        there.optimizer->step(GradScaling{.grad_scale = number(8), .found_inf = number(1)});
      there.optimizer->step(GradScaling{.grad_scale = number(8), .found_inf = number(0)});
      here.step();
    }
    there.expect_like(here);
  }
}

TEST_F(OptimOnGpu, AStateTravelsBetweenDevices) {
  const Make make = maker<NAdam>(NAdamOptions{.lr = 0.1, .capturable = true});
  const Training there(make, kCuda), here(make, Device(DeviceType::cpu));
  for (int i = 0; i < 3; ++i) here.step();
  there.optimizer->load_state_dict(here.optimizer->state_dict());
  {
    const no_grad guard;
    for (size_t i = 0; i < here.params.size(); ++i) there.params[i].copy_(here.params[i]);
  }
  for (int i = 0; i < 3; ++i) {
    here.step();
    there.step();
  }
  there.expect_like(here);
}

}  // namespace
}  // namespace tensora::test
