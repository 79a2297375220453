#pragma once

namespace tensora::train {

/// While one lives, SIGINT, SIGTERM and SIGHUP ask the run to stop instead of ending the process. A
/// second SIGINT or SIGTERM ends it; a second SIGHUP, which a closing terminal often sends, does
/// not. SIGHUP stays ignored where it was (nohup). Only one at a time.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  static bool requested() { return signal() != 0; }
  /// The first signal that asked to stop; 0 if there was none.
  static int signal();
};

}  // namespace tensora::train
