#pragma once

namespace tensora::toy {

/// Sets the toy's kernels in the slots of their ops.
void register_kernels();

}  // namespace tensora::toy
