#pragma once

namespace tensora::cuda {

// Note [Forked processes]
// A child of fork() has a copy of the CUDA context's host memory but not the context: its calls
// would fail in unclear ways or hang. The first use of CUDA therefore installs a handler that marks
// each child. In a marked process every use of the device throws, and freeing device memory does
// nothing, since the memory is the parent's.

/// Called once, when devices were found.
void watch_forks();
/// Whether this process was forked from one that used CUDA.
bool is_forked() noexcept;
/// Throws in such a process.
void require_not_forked();

}  // namespace tensora::cuda
