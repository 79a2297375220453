#pragma once

#include <cstdint>

namespace tensora {

class Interceptor;

/// The modes of the current thread that every op looks at. One plain thread-local object, so that
/// the common case is decided by one load.
struct ThreadState {
  bool grad_enabled = true;
  bool inference_mode = false;
  bool autocast_enabled = false;
  uint8_t autocast_dtype = 0;          // a DType
  uint32_t graph_region = 0;           // graph nodes made now belong to this checkpoint; 0: to none
  Interceptor* interceptor = nullptr;  // the topmost that sees ops before they run
};

/// Note [Thread-local state without guards]
/// `constinit` thread-locals of trivial type need no constructor check at each access, and with
/// the initial-exec TLS model an access is one instruction. Anything that needs a destructor lives
/// elsewhere.
extern thread_local constinit ThreadState thread_state;

}  // namespace tensora
