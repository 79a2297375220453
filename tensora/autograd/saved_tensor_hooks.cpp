#include "tensora/autograd/saved_tensor_hooks.h"

#include <utility>

#include "tensora/autograd/grad_mode.h"

namespace tensora {
namespace {

thread_local constinit SavedTensorHooks* innermost = nullptr;

}  // namespace

SavedTensorHooks::SavedTensorHooks(Pack pack)
    : pack_(std::move(pack)), outer_(std::exchange(innermost, this)) {}

SavedTensorHooks::~SavedTensorHooks() { innermost = outer_; }

std::unique_ptr<PackedTensor> SavedTensorHooks::pack(const Tensor& tensor) {
  if (!innermost) [[likely]]
    return nullptr;
  // What the hook computes is neither recorded nor packed itself.
  SavedTensorHooks* const hooks = std::exchange(innermost, nullptr);
  struct Restore {
    SavedTensorHooks* hooks;
    ~Restore() { innermost = hooks; }
  } const restore{hooks};
  const no_grad silent;
  const uint32_t version = tensor.version();
  std::unique_ptr<PackedTensor> packed = hooks->pack_(tensor);
  check(tensor.version() == version,
        "saved_tensors_hooks: the pack hook changed its tensor in place; let it return a new one");
  return packed;
}

}  // namespace tensora
