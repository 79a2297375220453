#pragma once

namespace tensora::train {

/// While one lives, SIGINT and SIGTERM ask the run to stop instead of ending the process; the
/// second one ends it. Only one at a time.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static bool requested();
};

}  // namespace tensora::train
