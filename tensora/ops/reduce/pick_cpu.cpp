#include "tensora/ops/reduce/pick.h"

#include <cstring>

#include "tensora/backend/cpu/parts.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Calls body(position, offset of the chosen element in `whole`, offset in `picked`) for elements
// [begin, end) of `indices`.
template <class Body>
void each_picked(const View& indices, const View& whole, const View& picked, const PickAttrs& attrs,
                 int64_t begin, int64_t end, Body&& body) {
  const int dim = static_cast<int>(attrs.dim);
  const int64_t* const chosen = indices.as<const int64_t>();
  for (int64_t i = begin; i < end; ++i) {
    int64_t rest = i, in_whole = 0, in_picked = 0, in_indices = 0;
    for (int d = indices.dim() - 1; d >= 0; --d) {
      const int64_t at = rest % indices.sizes[d];
      rest /= indices.sizes[d];
      in_indices += at * indices.strides[d];
      in_picked += at * picked.strides[d];
      const int source = d + (!attrs.keepdim && d >= dim && whole.dim() > 0);
      if (source < whole.dim()) in_whole += at * whole.strides[source];
    }
    if (whole.dim() > 0) in_whole += chosen[in_indices] * whole.strides[dim];
    body(in_whole, in_picked);
  }
}

constexpr int64_t kGrain = 4096;

void pick_kernel(const KernelContext& context, const PickAttrs& attrs) {
  const View &whole = context.input(0), &indices = context.input(1), &picked = context.output();
  visit_element_size(whole.dtype, [&]<class T>() {
    parallel_for(indices.numel, kGrain, [&](int64_t begin, int64_t end) {
      each_picked(indices, whole, picked, attrs, begin, end, [&](int64_t from, int64_t to) {
        picked.as<T>()[to] = whole.as<const T>()[from];
      });
    });
  });
}

void put_picked_kernel(const KernelContext& context, const PickAttrs& attrs) {
  const View &picked = context.input(0), &indices = context.input(1), &whole = context.output();
  const int64_t bytes = static_cast<int64_t>(whole.bytes());
  parallel_for(bytes, 1 << 18, [&](int64_t begin, int64_t end) {
    std::memset(whole.as<char>() + begin, 0, static_cast<size_t>(end - begin));
  });
  visit_element_size(whole.dtype, [&]<class T>() {
    parallel_for(indices.numel, kGrain, [&](int64_t begin, int64_t end) {
      each_picked(indices, whole, picked, attrs, begin, end, [&](int64_t to, int64_t from) {
        whole.as<T>()[to] = picked.as<const T>()[from];
      });
    });
  });
}

}  // namespace

void register_pick_cpu() {
  pick_op.set_kernel(DeviceType::cpu, pick_kernel);
  put_picked_op.set_kernel(DeviceType::cpu, put_picked_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
