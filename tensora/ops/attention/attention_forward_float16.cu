#include "tensora/ops/attention/attention_forward_mma.cuh"

namespace tensora::cuda {
template void forward_on_tensor_cores<Half>(std::string_view, int, const AttentionCall&);
}  // namespace tensora::cuda
