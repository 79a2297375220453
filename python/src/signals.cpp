#include <signal.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>

#include "python/src/object.h"
#include "tensora/base/interrupt.h"

// Ctrl-C during a long computation: Python's own handler only takes a note, which Python reads when
// the main thread runs Python code again. So a computation puts a handler before Python's, and asks
// Python to read its notes as soon as that one was called. The GIL is taken only then: to wait for
// it could mean to wait for a thread that waits for a lock which the computation holds.

namespace tensora::python {
namespace {

using Handler = void (*)(int);
std::atomic<Handler> python_handler = nullptr;
std::atomic<bool> interrupted = false;

void handle(int number) {
  interrupted.store(true, std::memory_order_relaxed);
  if (const Handler next = python_handler.load(std::memory_order_relaxed)) next(number);
}

/// Puts `handle` before the handler that Python has now. A program may set another at any time.
void watch_interrupt() {
  struct sigaction current = {};
  if (sigaction(SIGINT, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) ||
      current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN ||
      current.sa_handler == handle)
    return;
  python_handler.store(current.sa_handler, std::memory_order_relaxed);
  current.sa_handler = handle;
  sigaction(SIGINT, &current, nullptr);
}

bool is_main_thread() {
  thread_local const bool main = syscall(SYS_gettid) == getpid();
  return main;
}

void poll_signals() {
  using Clock = std::chrono::steady_clock;
  if (!is_main_thread()) return;
  if (interrupted.exchange(false, std::memory_order_relaxed) && Py_IsInitialized()) {
    const HoldGil gil;
    if (in_python([] { return PyErr_CheckSignals(); }) != 0) throw CarriedError();
  }
  thread_local Clock::time_point watched;
  const Clock::time_point now = Clock::now();
  if (now - watched < std::chrono::milliseconds(50)) return;
  watched = now;
  watch_interrupt();
}

}  // namespace

void watch_signals() { set_interrupt_poll(poll_signals); }

}  // namespace tensora::python
