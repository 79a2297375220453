#pragma once

#include <pthread.h>

#include <csignal>

namespace tensora::serve {

/// Begins a thread of the server: signals are the main thread's, and a name of at most 15 letters
/// that begins with "serve-" tells its processor time from the engine's.
inline void begin_own_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), name);
}

}  // namespace tensora::serve
