// Convolutions in several threads at once: they share the cache of the library's prepared shapes,
// and each may be the first to ask for one.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tensora/tensora.h"

namespace tensora {
namespace {

struct Layer {
  Tensor x, weight;
  int64_t stride;

  Tensor gradients() const {
    const Tensor input = x.clone().requires_grad_(), kernel = weight.clone().requires_grad_();
    const Tensor y = conv2d(input, kernel, {}, stride, 1);
    const std::vector<Tensor> grads = grad(y.square().sum(), {input, kernel});
    return cat({y.detach().flatten(), grads[0].flatten(), grads[1].flatten()});
  }
};

TEST(ConvThreads, ShapesMetByAllAtOnce) {
  manual_seed(3);
  std::vector<Layer> layers;
  for (int64_t channels : {3, 16, 24, 32})
    for (int64_t size : {9, 14, 20})
      layers.push_back(
          {randn({2, channels, size, size}), randn({16, channels, 3, 3}), size % 2 + 1});
  constexpr size_t kThreads = 4;
  std::vector<std::vector<Tensor>> results(kThreads, std::vector<Tensor>(layers.size()));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < layers.size(); ++i) {
        const size_t which = t % 2 ? layers.size() - 1 - i : i;
        results[t][which] = layers[which].gradients();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < layers.size(); ++i) {
    const Tensor alone = layers[i].gradients();
    for (size_t t = 0; t < kThreads; ++t)
      EXPECT_TRUE(allclose(results[t][i], alone, 1e-4, 1e-4)) << "layer " << i << ", thread " << t;
  }
}

TEST(ConvThreads, BitsDoNotDependOnTheirNumber) {
  manual_seed(4);
  const int before = get_num_threads();
  // Tiles of 2 x 2 in many blocks, and in few with many channels; then the other kernels.
  const Layer layers[] = {{randn({5, 64, 21, 30}), randn({48, 64, 3, 3}), 1},
                          {randn({12, 256, 5, 4}), randn({128, 256, 3, 3}), 1},
                          {randn({3, 32, 15, 15}), randn({40, 32, 3, 3}), 2}};
  for (const Layer& layer : layers) {
    set_num_threads(1);
    const Tensor alone = layer.gradients();
    for (int threads : {2, 3, 7}) {
      set_num_threads(threads);
      EXPECT_TRUE(equal(layer.gradients(), alone)) << threads << " threads";
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tensora
