#pragma once

#include <memory>
#include <string>

#include "tensora/dispatch/op.h"

// Note [Deferred kernels]
// A thread may have a Deferral. A call then passes the one door as always: its inputs are checked,
// `infer` describes the outputs, the history is recorded, versions are counted. Only where the
// kernel would run, the Deferral takes it. The output tensors have a storage without memory until
// the kernel has run. So mistakes throw at the user's line, random numbers are drawn in program
// order, and backward and the optimizers, which are ops, are deferred like everything else.
//
// What the host can see forces the kernels to run: data_ptr (and all that is built on it: item, at,
// printing, files, NumPy), work on other streams, settings that kernels read. A view whose storage
// got its memory later has no address yet; it gets it where it is next used (`place`).

namespace tensora {

class AccumulateGrad;

/// A kernel that is not run yet. What it refers to lives until `defer` returns.
struct DeferredKernel {
  const OpBase& op;
  Args inputs;  // without undefined ones at the end
  std::span<const Tensor> outputs;
  Device device;
  DType compute_dtype;
  const void* attrs;
};

/// Work of the host that a replayed function has to do again in each call, such as an optimizer's
/// step: it counts steps and looks up learning rates.
struct HostStep {
  std::function<void()> run;
  /// What it depends on that programs change between calls, as text.
  std::function<std::string()> settings;
  std::weak_ptr<const void> owner;  // without which it cannot run
};

/// Takes the kernels of the thread that it is installed in. See Note [Deferred kernels].
class Deferral {
 public:
  Deferral() = default;
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;
  virtual ~Deferral() = default;

  virtual void defer(const DeferredKernel& kernel) = 0;
  /// A call that is about to be described by `infer`. If the deferral knows from an earlier call
  /// with the same attributes and inputs like these what the outputs are, it makes them, takes the
  /// kernel, and returns true. The attributes are compared bit by bit.
  virtual bool foresee(const OpBase& op, Args inputs, const void* attrs, Device device,
                       Tensors& outputs) {
    static_cast<void>(op), static_cast<void>(inputs), static_cast<void>(attrs);
    static_cast<void>(device), static_cast<void>(outputs);
    return false;
  }
  /// A tensor without contents was made: its storage gets memory where it is first used.
  virtual void hold(const IntrusivePtr<Storage>& storage) = 0;
  /// The host is about to read or write the memory of `storage`.
  virtual void settle(const Storage& storage) = 0;
  /// Runs everything that was deferred. What a kernel throws leaves this function, and the kernels
  /// after it do not run, as if the calls had not been deferred.
  virtual void flush() = 0;
  /// Whether kernels that use this storage are deferred; they own one reference to it.
  virtual bool holds(const Storage& storage) const = 0;

  // What functions that are to be replayed do beside calling ops; see Note [Replay].
  virtual void host_step(const HostStep& step) { step.run(); }
  /// The program reads the gradient of a leaf, or sets it without reading.
  virtual void meet_leaf(AccumulateGrad& leaf, bool reads) {
    static_cast<void>(leaf), static_cast<void>(reads);
  }
  /// An op that is recorded for backward writes into a tensor.
  virtual void meet_history(const Tensor& target) { static_cast<void>(target); }
  virtual void cannot_repeat(std::string_view reason) { static_cast<void>(reason); }
};

/// Lets kernels run at once for the life of the scope; what was deferred before runs first.
class DeferralPause {
 public:
  DeferralPause() : paused_(thread_state.deferral) {
    if (paused_) paused_->flush();
    thread_state.deferral = nullptr;
  }
  ~DeferralPause() { thread_state.deferral = paused_; }
  DeferralPause(const DeferralPause&) = delete;
  DeferralPause& operator=(const DeferralPause&) = delete;

 private:
  Deferral* paused_;
};

/// A tensor whose memory will be there when the kernel that fills it has run.
Tensor make_deferred(const Shape& sizes, const Strides& strides, DType dtype, Device device);

/// Gives a tensor its address, if its storage got its memory after the tensor was made. Throws if
/// there is no memory yet and this thread has not deferred the kernel that fills it.
void place(const Tensor& tensor);

}  // namespace tensora
