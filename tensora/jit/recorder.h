#pragma once

// Internal header

#include "tensora/jit/compile.h"
#include "tensora/jit/tape.h"

namespace tensora::jit {

class Recording;
struct Plan;

/// Puts the kernels of a thread on a tape and runs them when they are needed.
class Recorder final : public Deferral {
 public:
  /// Before its first kernel, and again before it is used by another scope. `report` is told about
  /// every piece, if there is one, and `recording` is given the tape.
  void begin(const JitOptions& options, Report* report, Recording* recording);

  void defer(const DeferredKernel& kernel) override;
  void settle(const Storage& storage) override;
  void flush() override;
  bool holds(const Storage& storage) const override { return tape_.holds(storage); }

 private:
  void flush_for(std::string_view reason);
  void note_piece(const Plan& plan, bool planned, std::string_view reason,
                  std::span<const double> seconds);

  Tape tape_, running_;
  std::vector<std::string> lines_;  // of the nodes on the tape, if the report describes them
  JitOptions options_;
  Report* report_ = nullptr;
  Recording* recording_ = nullptr;
  bool deterministic_ = false;  // the setting under which the kernels on the tape were called
};

}  // namespace tensora::jit
