#include "tensora/libtorch/autograd.h"

namespace torch {

namespace autograd {

void backward(const variable_list& tensors, const variable_list& grad_tensors,
              std::optional<bool> retain_graph, bool create_graph, const variable_list& inputs) {
  if (inputs.empty())
    return tensora::autograd::backward(tensors, grad_tensors, retain_graph, create_graph);
  tensora::backward(
      tensors, grad_tensors,
      {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph}, inputs);
}

}  // namespace autograd

namespace cuda {

size_t device_count() {
  return is_available() ? static_cast<size_t>(tensora::backend(DeviceType::cuda).device_count())
                        : 0;
}

void synchronize(int64_t device_index) {
  tensora::check(is_available(), "torch::cuda::synchronize: ", tensora::cuda::unavailable_reason());
  tensora::synchronize(
      Device(DeviceType::cuda, static_cast<int>(std::max<int64_t>(device_index, 0))));
}

// One stream of random numbers serves all devices.
void manual_seed(uint64_t seed) { tensora::manual_seed(seed); }
void manual_seed_all(uint64_t seed) { tensora::manual_seed(seed); }

}  // namespace cuda

}  // namespace torch
