#include "tensora/jit/recorder.h"

#include "tensora/core/determinism.h"
#include "tensora/jit/plan.h"
#include "tensora/jit/replay.h"
#include "tensora/jit/source_line.h"

namespace tensora::jit {
namespace {

// A loop of many steps inside one scope must not keep every tensor that it used.
constexpr size_t kMostNodes = 16384;

/// Runs kernels directly, with the setting under which they were called.
class Running {
 public:
  explicit Running(Tape& tape, bool deterministic) : tape_(tape), setting_(deterministic) {
    thread_state.deferral = nullptr;
  }
  ~Running() {
    thread_state.deferral = deferral_;
    tape_.clear();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Tape& tape_;
  Deferral* const deferral_ = thread_state.deferral;
  const OverrideScope<&Modes::deterministic> setting_;
};

}  // namespace

void Recorder::begin(const JitOptions& options, Report* report, Recording* recording) {
  options_ = options;
  report_ = report;
  recording_ = recording;
  lines_.clear();
}

void Recorder::flush() {
  if (recording_) recording_->refuse("it does work whose order matters");
  flush_for("the end, or work whose order matters");
}

void Recorder::defer(const DeferredKernel& kernel) {
  const bool deterministic = is_deterministic();
  if (deterministic != deterministic_) flush_for("a change of set_deterministic");
  if (tape_.size() >= kMostNodes) flush_for("the length of the tape");
  deterministic_ = deterministic;
  tape_.add(kernel);
  if (report_ && report_->describes) lines_.push_back(source_line());
}

void Recorder::settle(const Storage& storage) {
  if (recording_) recording_->refuse("the host reads or writes a tensor");
  if (tape_.empty() || !tape_.uses_memory_of(storage)) return;
  const std::string line = report_ && report_->describes ? calling_line() : std::string();
  flush_for(concat("the host reads or writes a tensor", line.empty() ? "" : " at ", line));
}

void Recorder::note_piece(const Plan& plan, bool planned, std::string_view reason,
                          std::span<const double> seconds) {
  const std::lock_guard lock(report_->mutex);
  ++report_->pieces;
  report_->plans += planned ? 1 : 0;
  report_->ops += running_.size();
  report_->launches += plan.launches.size();
  if (report_->describes)
    report_->description += concat(to_string(plan, running_, seconds, lines_), "piece ",
                                   report_->pieces, ": ", running_.size(), " ops in ",
                                   plan.launches.size(), " kernels; ended by ", reason, "\n");
}

void Recorder::flush_for(std::string_view reason) {
  if (tape_.empty()) return;
  std::swap(tape_, running_);
  const Running scope(running_, deterministic_);
  bool planned = false;
  const std::shared_ptr<const Plan> plan =
      options_.fuse == Fuse::nothing ? std::make_shared<const Plan>(make_plain_plan(running_))
                                     : find_plan(running_, {options_.fuse, options_.wide}, planned);
  if (recording_) recording_->take(running_, plan);
  std::vector<double> seconds;
  run(running_, *plan, report_ && report_->times ? &seconds : nullptr);
  if (report_) note_piece(*plan, planned, reason, seconds);
  lines_.clear();
  check(!options_.strict || plan->failures.empty(), "jit: ", options_.name,
        options_.name.empty() ? "" : ": ",
        "a group of ops could not be compiled, and ran op by op: ",
        plan->failures.empty() ? "" : plan->failures.front());
}

std::string summary(const std::string& name, Report& report) {
  const std::lock_guard lock(report.mutex);
  return concat(name.empty() ? "" : concat(name, ": "), report.ops, " ops in ", report.launches,
                " kernels, ", report.pieces, report.pieces == 1 ? " piece, " : " pieces, ",
                report.plans, " planned anew\n");
}

}  // namespace tensora::jit
