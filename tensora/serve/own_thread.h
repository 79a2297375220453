#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace tensora::serve {

/// Asks the scheduler for short time slices: a thread with short ones that wakes preempts threads
/// with longer ones, such as the engine's, and gets no more processor time than before. Linux 6.12
/// and newer; older ones take no notice.
inline void take_short_slices() {
#ifdef SYS_sched_setattr
  struct {  // struct sched_attr, which only newer C libraries declare
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice, deadline, period;  // nanoseconds
  } wanted{.size = sizeof(wanted),
           .policy = 0,  // SCHED_OTHER
           .flags = 0,
           .nice = getpriority(PRIO_PROCESS, 0),  // on Linux that of this thread
           .priority = 0,
           .slice = 100'000,
           .deadline = 0,
           .period = 0};
  (void)syscall(SYS_sched_setattr, 0, &wanted, 0u);
#endif
}

/// Begins a thread of the server: signals are the main thread's, and a name of at most 15 letters
/// that begins with "serve-" tells its processor time from the engine's.
inline void begin_own_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), name);
}

}  // namespace tensora::serve
