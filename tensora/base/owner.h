#pragma once

#include <utility>

namespace tensora {

/// Keeps something alive until it is itself destroyed: a std::shared_ptr or std::unique_ptr, of
/// whatever type.
class Owner {
 public:
  Owner() = default;
  template <class Pointer>
    requires requires(const Pointer& pointer) { pointer.get(); }
  Owner(Pointer held)
      : held_(new Pointer(std::move(held))),
        release_([](void* object) { delete static_cast<Pointer*>(object); }) {}
  Owner(Owner&& other) noexcept
      : held_(std::exchange(other.held_, nullptr)), release_(other.release_) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(held_, other.held_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Owner() {
    if (held_) release_(held_);
  }

 private:
  void* held_ = nullptr;
  void (*release_)(void* object) = nullptr;
};

}  // namespace tensora
