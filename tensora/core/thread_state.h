#pragma once

#include <cstdint>

namespace tensora {

class Deferral;
class Interceptor;

/// A thread's override of a switch that also has a value for the whole process: a scope sets it and
/// finally restores what it found, so that scopes of different threads do not interfere.
enum class Override : uint8_t { none, off, on };

/// Automatic mixed precision, see dispatch/autocast.h: for each kind of device whether it is on (a
/// bit of `devices`) and the DType that ops are cast to.
struct AutocastModes {
  uint8_t devices = 0;
  bool caches = true;  // casts of parameters are kept while a scope lives
  uint8_t dtypes[8] = {};
};

/// Everything that decides how an op runs and what it records. It is one plain value: code that
/// repeats work or moves it to another thread (a checkpoint's second run, say) copies it as a
/// whole, including any mode that is added later.
struct Modes {
  bool grad_enabled = true;
  bool inference_mode = false;
  AutocastModes autocast;
  Override deterministic = Override::none;  // see core/determinism.h
  Override anomaly = Override::none;        // see autograd/engine.h
};

/// The state of the current thread: its modes, and what must not be copied to another thread or
/// time. One plain thread-local object, so that the common case is decided by one load.
struct ThreadState : Modes {
  uint32_t graph_region = 0;           // graph nodes made now belong to this checkpoint; 0: to none
  uint32_t autocast_scopes = 0;        // that are open; with the last one, the cached casts go
  uint64_t last_rank = 0;              // of the graph nodes made here; see Note [Order of backward]
  Interceptor* interceptor = nullptr;  // the topmost that sees ops before they run
  Deferral* deferral = nullptr;        // takes kernels instead of running them; see jit/
};

/// Note [Thread-local state without guards]
/// `constinit` thread-locals of trivial type need no constructor check at each access, and with
/// the initial-exec TLS model an access is one instruction. Anything that needs a destructor lives
/// elsewhere.
extern thread_local constinit ThreadState thread_state;

/// Runs a scope in given modes, such as those of another thread or an earlier time.
class ModesScope {
 public:
  explicit ModesScope(const Modes& modes) : saved_(thread_state) {  // NOLINT: the modes alone
    static_cast<Modes&>(thread_state) = modes;
  }
  ~ModesScope() { static_cast<Modes&>(thread_state) = saved_; }
  ModesScope(const ModesScope&) = delete;
  ModesScope& operator=(const ModesScope&) = delete;

 private:
  Modes saved_;
};

/// The base of scopes that set one `Override` of the current thread.
template <Override Modes::*member>
class OverrideScope {
 public:
  explicit OverrideScope(bool value) : saved_(thread_state.*member) {
    thread_state.*member = value ? Override::on : Override::off;
  }
  ~OverrideScope() { thread_state.*member = saved_; }
  OverrideScope(const OverrideScope&) = delete;
  OverrideScope& operator=(const OverrideScope&) = delete;

 private:
  Override saved_;
};

}  // namespace tensora
