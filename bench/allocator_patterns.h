#pragma once

// The ways in which training uses device memory, as sequences of allocate and free. The same text
// drives our allocator (cuda_allocator.cpp) and PyTorch's (peers/torch_cuda_allocator.cpp), in the
// same order with the same sizes; nothing but the calls is in the timed part, and no kernel runs.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "bench/timing.h"

namespace bench {

inline constexpr size_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024;

// xorshift: the same numbers everywhere.
struct Random {
  uint64_t state = 88172645463325252u;
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }
  /// Spread evenly over orders of magnitude.
  size_t size_between(size_t low, size_t high) {
    size_t doublings = 0;
    while ((low << (doublings + 1)) <= high) ++doublings;
    const size_t base = low << (next() % (doublings + 1));
    return std::min(high, base + next() % base);
  }
};

// `Memory` has allocate(bytes), free(address, bytes), reserved(), limit(bytes) and empty().
template <class Memory>
class Patterns {
 public:
  void run() {
    row("one size, one at a time", [this] { same_size(1, 1000); });
    row("one size, 100 live", [this] { same_size(100, 10); });
    row("variable sizes, 512 B to 1 MiB", [this] { variable(512, kMiB, 300); });
    row("variable sizes, 512 B to 256 MiB", [this] { variable(512, 256 * kMiB, 60); });
    row("large blocks, 64 MiB to 2 GiB", [this] { variable(64 * kMiB, 2 * kGiB, 8); });
    row("gradient accumulation", [this] { accumulate_gradients(); });
    row("transformer training loop", [this] { train_transformer(); });
    memory_.empty();
    memory_.limit(6 * kGiB);
    row("memory pressure, 6 GiB", [this] { pressure(); });
    memory_.limit(0);
  }

 private:
  struct Block {
    void* address;
    size_t bytes;
  };

  template <class Body>
  void row(const char* name, Body&& body) {
    memory_.empty();
    body();  // fills the cache: the first pass is cudaMalloc's time
    std::vector<double> times;
    size_t pairs = 0;
    for (int i = 0; i < 15; ++i) {
      pairs_ = 0;
      const double start = now();
      body();
      times.push_back(now() - start);
      pairs = pairs_;
    }
    std::sort(times.begin(), times.end());
    std::printf("{\"name\": \"%s\", \"ns_per_pair\": %.1f, \"reserved_mib\": %zu}\n", name,
                times[times.size() / 2] / static_cast<double>(pairs) * 1e9,
                memory_.reserved() / kMiB);
    std::fflush(stdout);
  }

  Block take(size_t bytes) {
    ++pairs_;
    return {memory_.allocate(bytes), bytes};
  }
  void give(const Block& block) { memory_.free(block.address, block.bytes); }
  void give_all(std::vector<Block>& blocks) {
    while (!blocks.empty()) {
      give(blocks.back());
      blocks.pop_back();
    }
  }

  void same_size(size_t live, int rounds) {
    std::vector<Block> blocks;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < live; ++i) blocks.push_back(take(4 * kKiB));
      give_all(blocks);
    }
  }

  // A random block is replaced by one of another size.
  void variable(size_t low, size_t high, size_t live) {
    Random random;
    std::vector<Block> blocks;
    for (size_t i = 0; i < live; ++i) blocks.push_back(take(random.size_between(low, high)));
    for (int i = 0; i < 2000; ++i) {
      Block& block = blocks[random.next() % live];
      give(block);
      block = take(random.size_between(low, high));
    }
    give_all(blocks);
  }

  // Forward keeps activations, backward frees them in reverse and makes two gradients for each;
  // the weights' gradients stay over the micro-batches.
  void accumulate_gradients() {
    std::vector<Block> gradients, activations;
    for (int layer = 0; layer < 24; ++layer) gradients.push_back(take(16 * kMiB));
    for (int micro_batch = 0; micro_batch < 8; ++micro_batch) {
      for (int layer = 0; layer < 24; ++layer) {
        activations.push_back(take(8 * kMiB + micro_batch % 2 * 64 * kKiB));
        activations.push_back(take(300 * kKiB));
      }
      for (int layer = 0; layer < 24; ++layer) {
        const Block weight = take(16 * kMiB), input = take(8 * kMiB);
        for (int i = 0; i < 2; ++i) {
          give(activations.back());
          activations.pop_back();
        }
        give(weight);
        give(input);
      }
    }
    give_all(gradients);
  }

  // Batches of different lengths, as sorted text gives them.
  void train_transformer() {
    const size_t width = 1024, batch = 8, heads = 16, layers = 24;
    for (size_t length : {512, 384, 512, 200, 448}) {
      const size_t hidden = batch * length * width * 2,
                   scores = batch * heads * length * length * 2;
      const size_t saved[] = {hidden, 3 * hidden, scores,     scores, hidden,
                              hidden, 4 * hidden, 4 * hidden, hidden, batch * length * 4};
      std::vector<Block> kept;
      for (size_t layer = 0; layer < layers; ++layer) {
        for (size_t bytes : saved) {
          kept.push_back(take(bytes));
          const Block passing = take(bytes / 2);
          give(passing);
        }
      }
      for (size_t layer = 0; layer < layers; ++layer) {
        for (size_t i = 0; i < std::size(saved); ++i) {
          const Block gradient = take(kept.back().bytes), workspace = take(256 * kKiB);
          give(kept.back());
          kept.pop_back();
          give(workspace);
          give(gradient);
        }
      }
    }
  }

  // Sizes change from phase to phase, so that what is cached never fits what is asked for: both
  // allocators give segments back to the device to stay within the limit.
  void pressure() {
    std::vector<Block> blocks;
    for (size_t phase = 0; phase < 12; ++phase) {
      const size_t bytes = (350 + 37 * phase) * kMiB;
      const size_t live = 5 * kGiB / 2 / bytes;
      for (size_t i = 0; i < live; ++i) blocks.push_back(take(bytes));
      for (size_t i = 0; i < 100; ++i) {
        const size_t which = i % live;
        give(blocks[which]);
        blocks[which] = take(bytes);
      }
      give_all(blocks);
    }
  }

  Memory memory_;
  size_t pairs_ = 0;
};

}  // namespace bench
