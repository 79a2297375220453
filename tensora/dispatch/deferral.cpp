#include "tensora/dispatch/deferral.h"

#include "tensora/autograd/history.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/core/deferred.h"
#include "tensora/dispatch/divided.h"

namespace tensora {
namespace {

// Whether the tensor has an address now, or needs none.
bool find_address(TensorImpl& impl) {
  if (impl.view.data || impl.view.numel == 0 || !impl.storage) return true;
  char* const memory = static_cast<char*>(impl.storage->data());
  if (!memory) return impl.view.device.is_meta();
  // Another thread that reads the same tensor stores the same address.
  void* const address = memory + bytes_of(impl.view.dtype, impl.offset);
  __atomic_store_n(&impl.view.data, address, __ATOMIC_RELAXED);
  return true;
}

[[noreturn, gnu::cold]] void fail_without_memory(const Tensor& tensor, std::string_view caller) {
  check(!is_sparse(tensor), caller,
        ": a sparse tensor has no memory for all elements; convert it with to_dense");
  check(!tensor.impl().storage->device().is_meta(), caller,
        ": the tensor belongs to a function that is being traced and has no data");
  fail(caller, ": a tensor of shape ", tensor.sizes(),
       " has no data: the op that computes it was deferred by a lazy scope or compiled function, "
       "and has failed, or belongs to another thread, which has to leave its scope first");
}

}  // namespace

void detail::flush_deferral() { thread_state.deferral->flush(); }

void detail::deferral_meets_leaf(RefCounted& accumulator, bool reads) {
  thread_state.deferral->meet_leaf(static_cast<AccumulateGrad&>(accumulator), reads);
}

void detail::deferral_cannot_repeat(std::string_view reason) {
  thread_state.deferral->cannot_repeat(reason);
}

bool detail::deferral_holds(const Storage& storage) {
  return thread_state.deferral->holds(storage);
}

void detail::collect_divided(Storage& storage) {
  DividedTensors* const known = divided_tensors.load(std::memory_order_acquire);
  if (known && known->holds(storage)) known->gather(storage);
}

void Tensor::settle_data() const {
  if (thread_state.deferral && impl().storage) thread_state.deferral->settle(*impl().storage);
  if (!impl().view.data && impl().storage) detail::collect_divided(*impl().storage);
  if (!find_address(impl())) fail_without_memory(*this, "data_ptr");
}

void place(const Tensor& tensor) {
  // A stand-in of a traced function has no memory either, but its storage says so.
  if (find_address(tensor.impl()) || tensor.impl().storage->device().is_meta()) return;
  if (thread_state.deferral && thread_state.deferral->holds(*tensor.impl().storage)) return;
  fail_without_memory(tensor, "an op");
}

Tensor make_deferred(const Shape& sizes, const Strides& strides, DType dtype, Device device) {
  for (int64_t size : sizes) check(size >= 0, "empty: sizes must not be negative, got ", sizes);
  const int64_t elements = storage_extent(sizes, strides, 0, "empty");
  int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(elements, int64_t(element_size(dtype)), &bytes);
  check(!overflow, "empty: a tensor of shape ", sizes, " has too many elements");
  return make_view(Storage::defer(static_cast<size_t>(bytes_of(dtype, elements)), device), sizes,
                   strides, 0, dtype);
}

}  // namespace tensora
