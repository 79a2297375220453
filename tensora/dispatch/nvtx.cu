#include "tensora/dispatch/nvtx.h"

// Header-only: it looks for a tool at the first range and loads what the tool brings.
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
