#include "tensora/backend/cuda/runtime/fork.h"

#include <pthread.h>

#include <atomic>

#include "tensora/base/check.h"

namespace tensora::cuda {
namespace {

std::atomic<bool> forked{false};

void mark_child() { forked.store(true, std::memory_order_relaxed); }

}  // namespace

void watch_forks() { pthread_atfork(nullptr, nullptr, mark_child); }

bool is_forked() noexcept { return forked.load(std::memory_order_relaxed); }

void require_not_forked() {
  check(!is_forked(),
        "cuda: this process was forked from one that had already used CUDA, which does not survive "
        "a fork; fork before the first use of CUDA, or start the worker as a new program");
}

}  // namespace tensora::cuda
