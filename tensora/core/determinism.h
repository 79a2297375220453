#pragma once

namespace tensora {

/// Whether ops must give the same bits for the same inputs on the same device, even where that is
/// slower. Off at first; for the whole process. An op that cannot, throws.
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
