#pragma once

namespace tensora {

/// Whether ops must give the same bits for the same inputs on the same device, even where that is
/// slower. Off at first; for the whole process. An op that cannot, throws.
///
/// On the CPU, with one build, processor and set of libraries, every op does so in either mode: the
/// order of a sum follows from the shape, not from the number of threads nor from who had time. The
/// one exception are the f32 and f64 products that OpenBLAS or oneDNN compute: they are cut into as
/// many pieces as there are threads, and their bits may change with set_num_threads. In
/// deterministic mode they are always cut as for eight threads.
bool is_deterministic();
void set_deterministic(bool deterministic);

/// Sets it for a scope.
class DeterministicScope {
 public:
  explicit DeterministicScope(bool deterministic) : previous_(is_deterministic()) {
    set_deterministic(deterministic);
  }
  ~DeterministicScope() { set_deterministic(previous_); }
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool previous_;
};

}  // namespace tensora
