#include "tensora/jit/lazy.h"

#include <exception>

#include "tensora/base/kept_by_thread.h"
#include "tensora/base/settings.h"
#include "tensora/jit/recorder.h"

namespace tensora {
namespace {

bool is_enabled() {
  static const bool enabled = switch_setting("TENSORA_JIT", true);
  return enabled;
}

// The recorder of this thread's last scope; its lists have their capacity already.
thread_local constinit KeptByThread<std::unique_ptr<jit::Recorder>> spare;

}  // namespace

LazyScope::LazyScope(const JitOptions& options, jit::Report* report, jit::Recording* recording)
    : exceptions_(std::uncaught_exceptions()) {
  if (thread_state.deferral || !is_enabled()) return;
  recorder_ = std::move(spare.get());
  if (!recorder_) recorder_ = std::make_unique<jit::Recorder>();
  recorder_->begin(options, report, recording);
  thread_state.deferral = recorder_.get();
}

LazyScope::~LazyScope() noexcept(false) {
  if (!recorder_) return;
  const struct Leave {
    std::unique_ptr<jit::Recorder>& recorder;
    ~Leave() {
      thread_state.deferral = nullptr;
      spare.get() = std::move(recorder);
    }
  } leave{recorder_};
  if (std::uncaught_exceptions() == exceptions_) {
    recorder_->flush();
    return;
  }
  try {
    recorder_->flush();
  } catch (...) {  // NOLINT: the exception that is on its way counts
  }
}

void LazyScope::flush() const {
  if (recorder_) recorder_->flush();
}

}  // namespace tensora
