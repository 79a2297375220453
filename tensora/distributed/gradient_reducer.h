#pragma once

// Internal header: reduces the gradients of a model while backward runs.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/gradient_bucket.h"

namespace tensora::distributed {

// Note [Steps of data-parallel training]
// A hook on each parameter puts its gradient into a bucket. Buckets are launched strictly in their
// order, as soon as they are complete: the ranks must make the same calls in the same order. At the
// end of backward the rest is launched, with zeros for parameters that this rank did not use, and
// behind it one small reduction, the control vector: how many ranks used each parameter, and how
// many have no further examples. So a parameter that nobody used can be left without a gradient.
//
// In the first backward the buckets are filled in the reverse order of registration. Then the order
// in which the gradients of rank 0 were complete is given to all, and the buckets are made anew.
class GradientReducer {
 public:
  /// `fixed`: slots that are reduced together, whatever the order of readiness; empty: as the
  /// options say.
  GradientReducer(std::vector<std::unique_ptr<Slot>>& slots, const DataParallelOptions& options,
                  std::vector<std::vector<size_t>> fixed);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  bool is_synchronizing() const { return synchronizing_; }
  void set_synchronizing(bool on) { synchronizing_ = on; }

  /// Takes part in one step of the others without gradients; false if no rank has any.
  bool shadow_step();
  /// Called when the gradients of a bucket have left their parameters, with the bucket's slots.
  void set_on_bucket(std::function<void(const std::vector<Slot*>&)> callback) {
    on_bucket_ = std::move(callback);
  }
  /// Called at the end of each backward, whether it synchronized or not.
  void set_on_end(std::function<void()> callback) { on_end_ = std::move(callback); }

  DataParallelReport& report() { return report_; }

 private:
  class StepGuard;
  struct Place {
    size_t bucket = 0, index = 0;
  };

  void make_buckets(std::span<const size_t> order);
  void on_gradient(size_t slot);
  void begin_step();
  bool was_reduced(const Tensor& grad) const;
  void launch_complete();
  void finish_step();
  void fill_missing();
  void reduce_control();
  /// How many ranks used each parameter, and how many are finished.
  std::vector<float> read_control();
  void apply_scale(const std::vector<float>& control);
  void hand_out(const std::vector<float>& control);
  void agree_on_order();
  void abandon_step();
  void end_step();
  bool on_cpu() const { return device_.is_cpu(); }

  std::vector<std::unique_ptr<Slot>>& slots_;
  DataParallelOptions options_;
  std::shared_ptr<ProcessGroup> group_;
  std::vector<std::vector<size_t>> fixed_;
  Device device_;
  std::vector<std::unique_ptr<GradientBucket>> buckets_;
  std::vector<std::unique_ptr<GradientBucket>> first_buckets_;  // until the second step
  std::vector<Place> places_;                                   // by slot
  std::vector<std::function<void()>> removers_;                 // of the hooks
  std::function<void(const std::vector<Slot*>&)> on_bucket_;
  std::function<void()> on_end_;

  bool synchronizing_ = true;
  bool in_step_ = false;
  bool agreed_ = false;    // on the order
  bool finished_ = false;  // this rank has no further examples
  size_t next_ = 0;        // the bucket to launch
  std::vector<size_t> ready_order_;
  std::vector<float> sent_control_;  // what control_ holds of this rank
  Tensor own_control_, control_;
  WorkPtr control_work_;
  DataParallelReport report_;
};

}  // namespace tensora::distributed
