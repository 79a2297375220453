#include "tensora/backend/cuda/runtime/fault.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "tensora/backend/cuda/memory/pinned.h"
#include "tensora/backend/cuda/memory/red_zones.h"
#include "tensora/base/check.h"

namespace tensora::cuda {
namespace {

std::mutex mutex;

std::map<int, Fault*>& faults() {
  static auto* notes = new std::map<int, Fault*>;
  return *notes;
}

}  // namespace

Fault* device_fault(int device) {
  std::lock_guard lock(mutex);
  Fault*& fault = faults()[device];
  if (fault) return fault;
  // Every device can write pinned memory at the host's address of it.
  void* const memory = pinned_pool().allocate(sizeof(Fault));
  std::memset(memory, 0, sizeof(Fault));
  return fault = static_cast<Fault*>(memory);
}

void throw_noted_fault(int device) {
  check_red_zones(device);
  Fault noted;
  {
    std::lock_guard lock(mutex);
    const auto found = faults().find(device);
    if (found == faults().end()) return;
    // Written by the device, which the compiler does not know.
    volatile Fault* const fault = found->second;
    if (fault->state != 2) return;
    noted = {fault->op, fault->sentence, fault->index, fault->limit, fault->dim, 0};
    fault->state = 0;
  }
  const std::string_view op(noted.op);
  check(!noted.sentence, op, ": ", noted.sentence ? noted.sentence : "");
  fail(op, ": index ", noted.index, " is out of bounds for dimension ", noted.dim, " with size ",
       noted.limit);
}

}  // namespace tensora::cuda
