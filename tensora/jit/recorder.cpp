#include "tensora/jit/recorder.h"

#include <algorithm>

#include "tensora/core/determinism.h"
#include "tensora/jit/plan.h"
#include "tensora/jit/replay.h"
#include "tensora/jit/source_line.h"

namespace tensora::jit {
namespace {

// A loop of many steps inside one scope must not keep every tensor that it used.
constexpr size_t kMostNodes = 16384;
// What a thread keeps prepared.
constexpr size_t kMostPrepared = 32, kMostPreparedNodes = 16384;
// How often in turn a program may leave a prepared tape before it is dropped.
constexpr int kMostMisses = 3;
// How many other tapes are tried where a program leaves one.
constexpr int kMostTried = 4;

/// Runs kernels directly, with the setting under which they were called.
class Running {
 public:
  Running(Tape& tape, PreparedTape* prepared, bool deterministic)
      : tape_(tape), prepared_(prepared), setting_(deterministic) {
    thread_state.deferral = nullptr;
    if (prepared_) prepared_->is_running = true;
  }
  ~Running() {
    thread_state.deferral = deferral_;
    if (!prepared_) {
      tape_.clear();
      return;
    }
    prepared_->rewind();
    prepared_->is_running = false;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Tape& tape_;
  PreparedTape* const prepared_;
  Deferral* const deferral_ = thread_state.deferral;
  const OverrideScope<&Modes::deterministic> setting_;
};

}  // namespace

void Recorder::begin(const JitOptions& options, Report* report, Recording* recording) {
  options_ = options;
  report_ = report;
  recording_ = recording;
  reads_ = false;
  lines_.clear();
}

void Recorder::flush() {
  reads_ = true;
  if (recording_) recording_->refuse("it does work whose order matters");
  flush_for("the end, or work whose order matters");
}

Recorder::Held::const_iterator Recorder::find_held(const Storage& storage) const {
  return std::find_if(held_.begin(), held_.end(),
                      [&](const auto& held) { return held.get() == &storage; });
}

// From now on the tape owns them.
void Recorder::use_held(const DeferredKernel& kernel) {
  const auto use = [&](const Tensor& tensor) {
    if (!tensor.defined() || tensor.impl().storage->data()) return;
    if (const auto held = find_held(*tensor.impl().storage); held != held_.end()) held_.erase(held);
  };
  for (const Arg& input : kernel.inputs) use(*input);
  for (const Tensor& output : kernel.outputs) use(output);
}

void Recorder::provide_held() {
  for (const IntrusivePtr<Storage>& storage : std::exchange(held_, {}))
    if (!storage->data() && storage->bytes() != 0 && storage->use_count() > 1) storage->provide();
}

void Recorder::defer(const DeferredKernel& kernel) {
  const bool deterministic = is_deterministic();
  if (deterministic != deterministic_) flush_for("a change of set_deterministic");
  if (recorded() >= kMostNodes) flush_for("the length of the tape");
  deterministic_ = deterministic;
  if (!held_.empty()) use_held(kernel);
  if (following_ ? !follow(kernel) : !tape_.empty() || !begin_following(kernel))
    tape_.add(kernel, reads_);
  reads_ = false;
  if (report_ && report_->describes) lines_.push_back(source_line());
}

bool Recorder::foresee(const OpBase& op, Args inputs, const void* attrs, Device device,
                       Tensors& outputs) {
  if (!following_ || is_deterministic() != deterministic_) return false;
  if (!following_->foresee(op, inputs, attrs, device, outputs)) return false;
  reads_ = false;
  if (report_ && report_->describes) lines_.push_back(source_line());
  return true;
}

void Recorder::host_step(const HostStep& step) {
  if (!recording_ || recording_->is_in_step()) return step.run();
  recording_->begin_step(step, recorded());
  step.run();
  recording_->end_step(recorded());
}

void Recorder::meet_leaf(AccumulateGrad& leaf, bool reads) {
  if (recording_) recording_->meet_leaf(leaf, reads);
}

void Recorder::meet_history(const Tensor& target) {
  if (recording_) recording_->meet_history(target);
}

void Recorder::cannot_repeat(std::string_view reason) {
  if (recording_ && !recording_->is_in_step()) recording_->refuse(reason);
}

void Recorder::settle(const Storage& storage) {
  if (const auto held = find_held(storage); held != held_.end()) {
    const IntrusivePtr<Storage> own = *held;
    held_.erase(held);
    if (!own->data() && own->bytes() != 0) own->provide();
    return;
  }
  reads_ = true;
  // What a host step reads beside the tape, it will read again.
  if (recording_ && (!recording_->is_in_step() || current().uses_memory_of(storage)))
    recording_->refuse("the host reads or writes a tensor");
  if (recorded() == 0 || !current().uses_memory_of(storage)) return;
  const std::string line = report_ && report_->describes ? calling_line() : std::string();
  flush_for(concat("the host reads or writes a tensor", line.empty() ? "" : " at ", line));
}

// The first op of a piece: does it begin a tape that is prepared?
bool Recorder::begin_following(const DeferredKernel& kernel) {
  if (prepared_.empty()) return false;
  const auto begins = [&](PreparedTape& tape) {
    return !tape.is_running && tape.fits(plan_options()) && tape.follow(kernel, reads_);
  };
  const auto last = std::find_if(prepared_.begin(), prepared_.end(),
                                 [&](const auto& tape) { return tape->number == last_; });
  const uint64_t expected = last == prepared_.end() ? 0 : (*last)->next;
  const auto wanted = std::find_if(prepared_.begin(), prepared_.end(),
                                   [&](const auto& tape) { return tape->number == expected; });
  if (wanted != prepared_.end() && begins(**wanted)) {
    following_ = wanted->get();
    return true;
  }
  for (const auto& tape : prepared_)
    if (begins(*tape)) {
      following_ = tape.get();
      return true;
    }
  return false;
}

// If the program goes on as neither the tape nor others with this beginning, it is recorded.
bool Recorder::follow(const DeferredKernel& kernel) {
  if (following_->follow(kernel, reads_)) return true;
  ++following_->misses;
  const size_t taken = following_->taken();
  int tried = 0;
  for (const auto& other : prepared_) {
    if (other.get() == following_ || other->is_running || !other->could_follow(kernel, taken) ||
        !other->fits(plan_options()))
      continue;
    if (++tried > kMostTried) break;
    if (!other->take_over(*following_)) continue;
    following_ = other.get();
    if (following_->follow(kernel, reads_)) return true;
  }
  tape_ = following_->leave();
  following_ = nullptr;
  std::erase_if(prepared_,
                [](const auto& tape) { return tape->misses > kMostMisses && !tape->is_running; });
  return false;
}

// The prepared tape that was followed to its end; null if what was called is now on `tape_`.
PreparedTape* Recorder::complete_tape() {
  PreparedTape* tape = std::exchange(following_, nullptr);
  if (!tape || tape->is_complete()) return tape;
  ++tape->misses;
  for (const auto& other : prepared_)
    if (other.get() != tape && !other->is_running && other->size() == tape->taken() &&
        other->fits(plan_options()) && other->take_over(*tape)) {
      tape = other.get();
      if (tape->is_complete()) return tape;
    }
  tape_ = tape->leave();
  return nullptr;
}

PreparedTape* Recorder::prepare(TapeEnd end, const std::shared_ptr<const Plan>& plan) {
  prepared_.insert(prepared_.begin(),
                   std::make_unique<PreparedTape>(std::exchange(running_, {}), std::move(end),
                                                  plan_options(), plan));
  PreparedTape* const tape = prepared_.front().get();
  static thread_local uint64_t last_number = 0;
  tape->number = ++last_number;
  tape->is_running = true;  // not to be dropped
  size_t nodes = 0;
  for (size_t i = 0; i < prepared_.size(); ++i) {
    nodes += prepared_[i]->size();
    if ((nodes > kMostPreparedNodes || i >= kMostPrepared) && !prepared_[i]->is_running) {
      nodes -= prepared_[i]->size();
      prepared_.erase(prepared_.begin() + static_cast<std::ptrdiff_t>(i--));
    }
  }
  return tape;
}

void Recorder::note_piece(const Tape& tape, const Plan& plan, bool planned, std::string_view reason,
                          std::span<const double> seconds) {
  const std::lock_guard lock(report_->mutex);
  ++report_->pieces;
  report_->plans += planned ? 1 : 0;
  report_->ops += tape.size();
  report_->launches += plan.launches.size();
  if (report_->describes)
    report_->description +=
        concat(to_string(plan, tape, seconds, lines_), "piece ", report_->pieces, ": ", tape.size(),
               " ops in ", plan.launches.size(), " kernels; ended by ", reason, "\n");
}

void Recorder::run_planned(Tape& tape, const std::shared_ptr<const Plan>& plan, bool planned,
                           std::string_view reason) {
  if (recording_) recording_->take(tape, plan);
  std::vector<double> seconds;
  run(tape, *plan, report_ && report_->times ? &seconds : nullptr);
  if (report_) note_piece(tape, *plan, planned, reason, seconds);
  lines_.clear();
  check(!options_.strict || plan->failures.empty(), "jit: ", options_.name,
        options_.name.empty() ? "" : ": ",
        "a group of ops could not be compiled, and ran op by op: ",
        plan->failures.empty() ? "" : plan->failures.front());
}

void Recorder::flush_for(std::string_view reason) {
  provide_held();
  if (recorded() == 0) return;
  if (PreparedTape* const prepared = complete_tape()) {
    const auto place = std::find_if(prepared_.begin(), prepared_.end(),
                                    [&](const auto& tape) { return tape.get() == prepared; });
    std::rotate(prepared_.begin(), place, place + 1);
    prepared->misses = 0;
    note_order(prepared);
    count_plan_use(prepared->counts());
    const Running scope(prepared->tape(), prepared, deterministic_);
    run_planned(prepared->tape(), prepared->plan(), false, reason);
    return;
  }
  std::swap(tape_, running_);
  TapeEnd end(running_);
  FoundPlan found;
  if (options_.fuse == Fuse::nothing)
    found.plan = std::make_shared<const Plan>(make_plain_plan(running_));
  else
    found = find_plan(running_, plan_options());
  PreparedTape* prepared = nullptr;
  if (found.repeats) {
    prepared = prepare(std::move(end), found.plan);
    note_order(prepared);
  }
  Tape& tape = prepared ? prepared->tape() : running_;
  const Running scope(tape, prepared, deterministic_);
  run_planned(tape, found.plan, found.is_new, reason);
}

// What comes after the tape that ran last is expected after it again.
void Recorder::note_order(PreparedTape* now) {
  for (const auto& tape : prepared_)
    if (tape->number == last_) tape->next = now->number;
  last_ = now->number;
}

std::string summary(const std::string& name, Report& report) {
  const std::lock_guard lock(report.mutex);
  return concat(name.empty() ? "" : concat(name, ": "), report.ops, " ops in ", report.launches,
                " kernels, ", report.pieces, report.pieces == 1 ? " piece, " : " pieces, ",
                report.plans, " planned anew\n");
}

}  // namespace tensora::jit
