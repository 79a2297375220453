#include "tensora/dispatch/nvtx.h"

// Header-only: at the first range it looks for a profiler and loads its library.
#include <nvtx3/nvToolsExt.h>

#include "tensora/base/settings.h"
#include "tensora/dispatch/profiler.h"

namespace tensora {
namespace {

constexpr RangeObserver kObserver{[](const char* name) { nvtxRangePushA(name); },
                                  [] { nvtxRangePop(); }};

}  // namespace

NvtxRanges::NvtxRanges() { set_range_observer(&kObserver); }
NvtxRanges::~NvtxRanges() { set_range_observer(nullptr); }

void start_nvtx_if_asked() {
  if (switch_setting("TENSORA_NVTX", false)) set_range_observer(&kObserver);
}

}  // namespace tensora
