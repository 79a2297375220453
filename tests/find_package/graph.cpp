// What of the CUDA backend a user's program may name, beyond tensors on a CUDA device.
#include <cstdio>

#include "tensora/backend/cuda/cuda.h"
#include "tensora/tensora.h"

int main() {
  using namespace tensora;
  if (!cuda::is_available()) {
    std::printf("linked with Tensora::cuda; not run: %s\n", cuda::unavailable_reason().c_str());
    return 0;
  }
  const Tensor x = ones({4}, kCUDA);
  Tensor y = x * 2;
  cuda::Graph graph;
  graph.capture([&] { y = x * 2; });
  x.fill_(3);
  graph.replay();
  std::printf("ran a graph of %zu nodes\n", graph.node_count());
  return y.sum().item<double>() == 24 ? 0 : 1;
}
