#pragma once

// Internal header

#include "tensora/jit/compile.h"
#include "tensora/jit/prepared_tape.h"

namespace tensora::jit {

class Recording;

/// Puts the kernels of a thread on a tape and runs them when they are needed.
class Recorder final : public Deferral {
 public:
  /// Before its first kernel, and again before it is used by another scope. `report` is told about
  /// every piece, if there is one, and `recording` is given the tape.
  void begin(const JitOptions& options, Report* report, Recording* recording);

  void defer(const DeferredKernel& kernel) override;
  bool foresee(const OpBase& op, Args inputs, const void* attrs, Device device,
               Tensors& outputs) override;
  void hold(const IntrusivePtr<Storage>& storage) override { held_.push_back(storage); }
  void settle(const Storage& storage) override;
  void host_step(const HostStep& step) override;
  void meet_leaf(AccumulateGrad& leaf, bool reads) override;
  void meet_history(const Tensor& target) override;
  void cannot_repeat(std::string_view reason) override;
  void flush() override;
  bool holds(const Storage& storage) const override {
    return current().holds(storage) || find_held(storage) != held_.end();
  }

 private:
  const Tape& current() const { return following_ ? following_->tape() : tape_; }
  PlanOptions plan_options() const {
    return {options_.fuse, options_.wide, options_.memory_budget};
  }
  size_t recorded() const { return following_ ? following_->taken() : tape_.size(); }
  using Held = std::vector<IntrusivePtr<Storage>>;
  Held::const_iterator find_held(const Storage& storage) const;
  void use_held(const DeferredKernel& kernel);
  void provide_held();
  bool follow(const DeferredKernel& kernel);
  bool begin_following(const DeferredKernel& kernel);
  PreparedTape* complete_tape();
  PreparedTape* prepare(TapeEnd end, const std::shared_ptr<const Plan>& plan);
  void note_order(PreparedTape* now);
  void flush_for(std::string_view reason);
  void run_planned(Tape& tape, const std::shared_ptr<const Plan>& plan, bool planned,
                   std::string_view reason);
  void note_piece(const Tape& tape, const Plan& plan, bool planned, std::string_view reason,
                  std::span<const double> seconds);

  Tape tape_, running_;
  Held held_;  // storages without memory that no kernel on the tape uses yet
  // Of this thread; the one that was used last comes first. See Note [Following a tape].
  std::vector<std::unique_ptr<PreparedTape>> prepared_;
  PreparedTape* following_ = nullptr;  // instead of adding to `tape_`
  uint64_t last_ = 0;                  // the prepared tape that ran last, by its number
  bool reads_ = false;                 // the host has read something since the last op
  std::vector<std::string> lines_;     // of the nodes on the tape, if the report describes them
  JitOptions options_;
  Report* report_ = nullptr;
  Recording* recording_ = nullptr;
  bool deterministic_ = false;  // the setting under which the kernels on the tape were called
};

}  // namespace tensora::jit
