#include "tensora/core/random.h"

#include <utility>

#include "tensora/base/entropy.h"
#include "tensora/base/fork.h"
#include "tensora/core/rank_state.h"
#include "tensora/core/tensor.h"

namespace tensora {
namespace {

constinit thread_local Generator* scoped_generator = nullptr;
constinit thread_local RankState* scoped_rank = nullptr;

// One lock for the states of all generators: it is held for a few instructions only, and one lock
// can be kept usable across a fork, which a lock in every generator could not.
constinit Mutex states;

class StateLock {
 public:
  StateLock() {
    struct Held {
      Held() { hold_over_fork(states); }
    };
    static constinit MadeOnce<Held> held;
    held.get();
    states.lock();
  }
  ~StateLock() { states.unlock(); }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
};

void put(uint8_t* to, uint64_t value) {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint64_t take(const uint8_t* from) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= uint64_t{from[i]} << (8 * i);
  return value;
}

}  // namespace

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }

uint64_t Generator::seed() {
  const uint64_t fresh = entropy_word();
  manual_seed(fresh);
  return fresh;
}

PhiloxState Generator::reserve(uint64_t counters) {
  const StateLock lock;
  const PhiloxState start = state_;
  state_.offset += counters;
  return start;
}

PhiloxState Generator::state() const {
  const StateLock lock;
  return state_;
}

void Generator::set_state(const PhiloxState& state) {
  const StateLock lock;
  state_ = state;
}

Generator::Bytes Generator::state_bytes() const {
  const PhiloxState now = state();
  Bytes bytes;
  put(bytes.data(), now.seed);
  put(bytes.data() + 8, now.offset);
  return bytes;
}

void Generator::set_state_bytes(const Bytes& bytes) {
  set_state({take(bytes.data()), take(bytes.data() + 8)});
}

Tensor Generator::get_state() const {
  const Bytes bytes = state_bytes();
  const Tensor result = make_tensor({int64_t{16}}, {int64_t{1}}, kUInt8, DeviceType::cpu);
  __builtin_memcpy(result.data_ptr(), bytes.data(), bytes.size());
  return result;
}

void Generator::set_state(const Tensor& state) {
  check(state.dtype() == kUInt8 && state.sizes() == Shape{16} && state.is_cpu() &&
            state.is_contiguous(),
        "set_state: expected a contiguous uint8 tensor of 16 elements on the cpu, got ",
        state.dtype(), " of shape ", state.sizes(), " on ", state.device());
  Bytes bytes;
  __builtin_memcpy(bytes.data(), state.data_ptr(), bytes.size());
  set_state_bytes(bytes);
}

Generator Generator::fork() {
  const PhiloxState here = reserve(1);
  // The seed's complement as key: no counter of the stream itself gives these words.
  const PhiloxWords words = philox(~here.seed, here.offset);
  return Generator((uint64_t{words.word[0]} << 32) | words.word[1]);
}

Generator& default_generator() { return rank_state().generator; }

RankState& rank_state() {
  if (scoped_rank) [[unlikely]]
    return *scoped_rank;
  // Never destroyed: threads may still draw while the process ends.
  struct OfProcess {
    RankState state{Generator(entropy_word()), nullptr, {}};
  };
  static constinit MadeOnce<OfProcess> process;
  return process.get().state;
}

RankScope::RankScope(RankState& state) : previous_(std::exchange(scoped_rank, &state)) {}
RankScope::~RankScope() { scoped_rank = previous_; }

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

Generator& current_generator() {
  return scoped_generator ? *scoped_generator : default_generator();
}

GeneratorScope::GeneratorScope(Generator& generator)
    : previous_(std::exchange(scoped_generator, &generator)) {}
GeneratorScope::~GeneratorScope() { scoped_generator = previous_; }

}  // namespace tensora
