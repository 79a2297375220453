#include "tensora/distributed/lane.h"

#include "tensora/core/backend.h"
#include "tensora/core/pinned.h"
#include "tensora/core/tensor.h"

namespace tensora::distributed {

Lane::Lane(std::unique_ptr<Transport> transport, std::string group, std::shared_ptr<Watch> watch,
           std::shared_ptr<Recorder> recorder)
    : transport_(std::move(transport)),
      group_(std::move(group)),
      watch_(std::move(watch)),
      recorder_(std::move(recorder)) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  added_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<QueuedCall> Lane::start(const Collective& call) {
  watch_->failure().rethrow_if_happened();
  const uint64_t number = recorder_->queue(group_, call);
  std::unique_lock lock(mutex_);
  if (call.mode == CallMode::blocking && queue_.empty() && !busy_ && call.in.device.is_cpu()) {
    busy_ = true;
    lock.unlock();
    recorder_->start(number);
    std::exception_ptr error;
    try {
      run(call, nullptr);
      recorder_->finish(number);
    } catch (...) {
      error = std::current_exception();
      watch_->failure().set(error);
    }
    lock.lock();
    busy_ = false;
    if (!queue_.empty()) added_.notify_one();
    lock.unlock();
    if (error) std::rethrow_exception(error);
    return nullptr;
  }
  auto queued = std::make_shared<QueuedCall>();
  queued->call = call;
  queued->in_counts.assign(call.in_counts.begin(), call.in_counts.end());
  queued->out_counts.assign(call.out_counts.begin(), call.out_counts.end());
  queued->call.in_counts = queued->in_counts;
  queued->call.out_counts = queued->out_counts;
  queued->caller = current_queue(call.in.device);
  queued->number = number;
  queue_.push_back(queued);
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  added_.notify_one();
  return queued;
}

void Lane::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [&] { return stopping_ || (!queue_.empty() && !busy_); });
    if (stopping_ && (queue_.empty() || watch_->failure().happened())) return;
    if (queue_.empty() || busy_) continue;
    const std::shared_ptr<QueuedCall> next = queue_.front();
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    recorder_->start(next->number);
    const auto start = Recorder::Clock::now();
    std::exception_ptr error;
    try {
      watch_->failure().rethrow_if_happened();
      run(next->call, next.get());
      recorder_->finish(next->number);
    } catch (...) {
      error = std::current_exception();
      watch_->failure().set(error);
    }
    lock.lock();
    busy_ = false;
    next->error = error;
    next->seconds = std::chrono::duration<double>(Recorder::Clock::now() - start).count();
    next->done = true;
    next->kept.clear();
    ended_.notify_all();
  }
}

void Lane::run(const Collective& call, QueuedCall* queued) {
  if (call.in.device.is_cpu())
    transport_->run(call);
  else if (!call.in.device.is_meta())
    run_staged(call, *queued);
}

// Memory of another device goes through the host's: the transport knows that alone.
void Lane::run_staged(const Collective& call, QueuedCall& queued) {
  QueueControl* const control = queue_control(call.in.device.type);
  if (control) {
    queued.done_on = control->current(call.in.device);
    if (!(queued.caller == queued.done_on)) control->order(queued.caller, queued.done_on);
  }
  Collective staged = call;
  const Device host = DeviceType::cpu;
  const bool in_place = call.in.data == call.out.data;
  const PinnedMemory* const pinned = pinned_memory(call.in.device.type);
  const auto host_copy = [&](const View& view) {
    const Shape bytes{static_cast<int64_t>(view.bytes())};
    const Tensor memory = pinned ? pinned->empty(bytes, kUInt8) : make_tensor(bytes, kUInt8, host);
    View copy = view;
    copy.data = memory.data_ptr();
    copy.device = host;
    return std::pair(memory, copy);
  };
  const auto [in_memory, in] = host_copy(call.in);
  if (call.in.numel > 0) copy_bytes(in.data, host, call.in.data, call.in.device, call.in.bytes());
  const auto [out_memory, out] = in_place ? std::pair(in_memory, in) : host_copy(call.out);
  staged.in = in;
  staged.out = out;
  transport_->run(staged);
  if (call.out.numel > 0)
    copy_bytes(call.out.data, call.out.device, out.data, host, call.out.bytes());
  synchronize(call.out.device);  // the host's copy ends with this function
}

// After a failure the lane's thread still uses the memory of a call until the transport looks up,
// which takes a twentieth of a second. One that cannot be interrupted may never end the call.
bool Lane::is_over(const QueuedCall& call) const {
  return call.done || watch_->failure().happened_before(std::chrono::seconds(1));
}

bool Lane::is_done(const QueuedCall& call) {
  const std::lock_guard lock(mutex_);
  return is_over(call);
}

void Lane::keep(QueuedCall& call, std::shared_ptr<const void> memory) {
  const std::lock_guard lock(mutex_);
  if (!call.done) call.kept.push_back(std::move(memory));
}

bool Lane::wait(QueuedCall& call, double seconds) {
  std::unique_lock lock(mutex_);
  const auto until = Recorder::Clock::now() + std::chrono::duration<double>(seconds);
  while (!is_over(call)) {
    const bool failed = watch_->failure().happened();
    if (seconds >= 0 && !failed && Recorder::Clock::now() >= until) return false;
    ended_.wait_for(lock, std::chrono::milliseconds(50));
  }
  if (call.error) std::rethrow_exception(call.error);
  if (!call.done) watch_->failure().rethrow();
  return true;
}

}  // namespace tensora::distributed
