// A backend that was compiled with other headers than libtensora: it must not be asked for
// anything.
#include "tensora/base/check.h"
#include "tensora/core/backend.h"

extern "C" int tensora_stale_abi() { return tensora::kBackendAbi + 7; }

extern "C" tensora::Backend* tensora_stale_backend() {
  tensora::fail("the backend of another version was called");
}
