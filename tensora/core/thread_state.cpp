#include "tensora/core/thread_state.h"

namespace tensora {

thread_local constinit ThreadState thread_state;

}  // namespace tensora
