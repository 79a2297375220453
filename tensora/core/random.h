#pragma once

#include <array>
#include <cstdint>

#include "tensora/core/philox.h"

namespace tensora {

class Tensor;

/// A stream of random numbers: a seed and a position in the stream. Safe to use from several
/// threads; which thread gets which part of the stream is then up to their timing.
///
/// Note [One stream for all devices]
/// A value depends on (seed, position, element) alone, so a tensor is filled with the same numbers
/// on any device, by any number of threads, with any instruction set. The default generator serves
/// all devices together: two generators with one seed would give a CPU and a GPU tensor of one
/// program the same numbers.
class Generator {
 public:
  using Bytes = std::array<uint8_t, 16>;

  explicit Generator(uint64_t seed = 0) { manual_seed(seed); }
  Generator(const Generator& other) : state_(other.state()) {}
  Generator& operator=(const Generator& other) {
    set_state(other.state());
    return *this;
  }

  /// Starts the stream of this seed from its beginning.
  void manual_seed(uint64_t seed);
  /// A seed from the system's entropy; returns it.
  uint64_t seed();
  uint64_t initial_seed() const { return state().seed; }

  /// Takes the next `counters` counters out of the stream.
  PhiloxState reserve(uint64_t counters);

  PhiloxState state() const;
  void set_state(const PhiloxState& state);
  /// The state as 16 bytes, the same on every machine; what checkpoints keep.
  Bytes state_bytes() const;
  void set_state_bytes(const Bytes& bytes);
  /// The state as a uint8 tensor of 16 elements.
  Tensor get_state() const;
  void set_state(const Tensor& state);

  /// A generator with a stream of its own, itself determined by this one's state.
  Generator fork();

 private:
  PhiloxState state_;
};

/// The generator of every random op outside a GeneratorScope. Seeded from the system's entropy
/// until `manual_seed` is called.
Generator& default_generator();
/// Starts the default generator's stream of this seed.
void manual_seed(uint64_t seed);

/// The generator that random ops of this thread draw from.
Generator& current_generator();

/// Makes the random ops of this thread draw from `generator` while it lives.
class GeneratorScope {
 public:
  explicit GeneratorScope(Generator& generator);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator* previous_;
};

}  // namespace tensora
