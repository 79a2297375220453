#pragma once

#include <cstddef>

namespace tensora::cpu {

/// Whether `bytes` more of address space can be mapped at this moment. Only a limit of the process
/// (ulimit -v) is asked about; without one the answer is yes.
bool has_address_space(size_t bytes);

// Note [Libraries under a memory limit]
// OpenBLAS maps a buffer for every thread that is inside of it at the same time, when that happens
// first, and tries again without end if there is no room. oneDNN does not check its allocations
// everywhere. Under a limit of the address space OpenBLAS is only opened where all its buffers have
// room, and they are mapped at once; oneDNN makes no new kernel where little is left. Our own
// kernels, whose allocations throw, take their place.

/// The room that OpenBLAS needs with so many threads.
size_t openblas_address_space(int threads);
/// Maps the buffers of `threads` threads of the opened library; false if there is no room.
bool map_openblas_buffers(void* library, int threads);

/// What making a kernel of oneDNN takes at most.
inline constexpr size_t kOneDnnAddressSpace = size_t{128} << 20;

}  // namespace tensora::cpu
