#include "tensora/ops/paged/paged_decode.cuh"
#include "tensora/ops/paged/paged_prefill.cuh"

namespace tensora::cuda {

template <>
void paged_attention_on_tensor_cores<BFloat16>(std::string_view op, int device,
                                               const PagedCall& call) {
  const auto run = [&]<int width>() {
    if (is_decode(call))
      launch_paged_decode<BFloat16, width>(op, device, call);
    else
      launch_paged_prefill<BFloat16, width>(op, device, call);
  };
  if (call.size <= 64)
    run.template operator()<64>();
  else if (call.size <= 128)
    run.template operator()<128>();
  else
    run.template operator()<256>();
}

}  // namespace tensora::cuda
