#include "tensora/ops/attention/attention_backward_mma.cuh"

namespace tensora::cuda {
template void backward_on_tensor_cores<BFloat16>(std::string_view, int, const AttentionCall&);
}  // namespace tensora::cuda
