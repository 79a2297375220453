#include "tensora/backend/cuda/runtime/graph_random.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/check.h"

// Note [Random numbers in a graph]
// A random op's launch carries where in the generator's stream its numbers begin; recorded, it
// would draw the same ones at each replay. So a recorded launch carries the offset from the
// beginning of the recording, and the kernel adds the position at which the replay begins, which it
// reads from device memory. Before a replay the host reserves as many counters of the generator as
// the recording used, and queues the write of that position. Eager runs and replays thus draw the
// same numbers.

namespace tensora::cuda {
namespace {

__global__ void store_random(ReplayRandom* to, ReplayRandom value) { *to = value; }

}  // namespace

void set_replay_random(int device, ReplayRandom* to, ReplayRandom value) {
  Launch{"Graph::replay", device}(store_random, dim3(1), dim3(1), to, value);
}

const ReplayRandom* replay_random(std::string_view op, PhiloxState& state) {
  Capture* const capture = current_capture();
  if (!capture) return nullptr;
  const PhiloxState& start = capture->random_start;
  check(state.seed == start.seed && state.offset >= start.offset, op,
        ": in a recorded graph random numbers come from the generator that was current when the "
        "recording began");
  capture->draws_random = true;
  state.offset -= start.offset;
  return capture->random;
}

}  // namespace tensora::cuda
