#pragma once

namespace tensora::cuda {

/// Lets a kernel have more dynamic shared memory than the 48 KiB that need no permission.
void allow_shared_memory(int device, const void* kernel, int bytes);
/// How much that may be.
int most_shared_memory(int device);

}  // namespace tensora::cuda
