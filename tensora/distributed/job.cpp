#include "tensora/distributed/job.h"

#include <map>
#include <mutex>
#include <numeric>

namespace tensora::distributed {
namespace {

class LaneWork final : public Work {
 public:
  LaneWork(std::shared_ptr<Lane> lane, std::shared_ptr<QueuedCall> call)
      : lane_(std::move(lane)), call_(std::move(call)) {}

  void wait() override {
    lane_->wait(*call_, -1);
    const Device device = call_->call.in.device;
    QueueControl* const control = queue_control(device.type);
    if (!control) return;
    const Queue here = control->current(device);
    if (!(call_->done_on == here)) control->order(call_->done_on, here);
  }
  bool wait_for(double seconds) override { return lane_->wait(*call_, seconds); }
  bool done() override { return lane_->is_done(*call_); }
  void keep(std::shared_ptr<const void> memory) override { lane_->keep(*call_, std::move(memory)); }
  double seconds() override { return done() ? call_->seconds : 0; }

 private:
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<QueuedCall> call_;
};

/// A group whose ranks are processes.
class JobGroup final : public ProcessGroup {
 public:
  JobGroup(std::shared_ptr<Job> job, const std::string& name, const std::string& key, int rank,
           std::vector<int> global_ranks)
      : ProcessGroup(name, rank, global_ranks), job_(std::move(job)), key_(key) {
    const std::shared_ptr<Watch> watch = make_watch();
    transports_ = job_->fabric->connect(key, global_ranks, rank, watch);
    calls_ = std::make_shared<Lane>(std::move(transports_.calls), name, watch, job_->recorder);
  }

  std::string_view backend() const override { return job_->fabric->backend(); }
  using ProcessGroup::abort_group;
  void abort_group(const std::string& reason, int rank) override {
    job_->failure->set(rank < 0 ? std::make_exception_ptr(GroupError(reason))
                                : std::make_exception_ptr(RankFailedError(rank, reason)));
  }
  void set_options(const GroupOptions& options) override {
    ProcessGroup::set_options(options);
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Watch>& watch : watches_) watch->set_options(options);
  }

 protected:
  WorkPtr start(const Collective& call) override {
    const std::shared_ptr<Lane> lane = lane_of(call);
    std::shared_ptr<QueuedCall> queued = lane->start(call);
    if (!queued) return finished_work();
    return std::make_shared<LaneWork>(lane, std::move(queued));
  }
  std::shared_ptr<ProcessGroup> make_split(const std::string& name, int rank,
                                           const std::vector<int>& members) override {
    std::vector<int> numbers;
    for (int member : members) numbers.push_back(global_ranks()[static_cast<size_t>(member)]);
    std::string key = concat(key_, ".", name, "#", made_[{name, members}]++);
    for (int number : numbers) append(key, concat("-", number));
    return std::make_shared<JobGroup>(job_, name, key, rank, numbers);
  }

 private:
  std::shared_ptr<Watch> make_watch() {
    auto watch = std::make_shared<Watch>(name(), global_ranks(), rank(), job_->failure);
    watch->set_options(options());
    watches_.push_back(watch);
    if (!job_->control) return watch;
    // The job outlives its groups' calls.
    watch->has_left = [job = job_.get()](int other) { return job->control->has_left(other); };
    watch->warn = [job = job_.get()](const std::string& text, const std::vector<int>& ranks) {
      job->control->tell_slow(text, ranks);
    };
    return watch;
  }
  // A message waits behind those of its own pair of ranks and direction, and behind nothing else:
  // its partner may be about to do any other call first.
  std::shared_ptr<Lane> lane_of(const Collective& call) {
    const bool sends = call.kind == CollectiveKind::send;
    if (!sends && call.kind != CollectiveKind::recv) return calls_;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Lane>& lane = messages_[{sends, call.root}];
    if (!lane) {
      const std::shared_ptr<Watch> watch = make_watch();
      lane = std::make_shared<Lane>(transports_.messages(watch), name(), watch, job_->recorder);
    }
    return lane;
  }

  std::shared_ptr<Job> job_;
  const std::string key_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Watch>> watches_;  // of all lanes
  Fabric::Transports transports_;
  std::shared_ptr<Lane> calls_;
  std::map<std::pair<bool, int>, std::shared_ptr<Lane>> messages_;  // sends, other rank
  std::map<std::pair<std::string, std::vector<int>>, int> made_;
};

}  // namespace

std::shared_ptr<ProcessGroup> make_world(std::shared_ptr<Job> job, const GroupOptions& options) {
  std::vector<int> all(static_cast<size_t>(job->ranks));
  std::iota(all.begin(), all.end(), 0);
  const int rank = job->rank;
  auto world = std::make_shared<JobGroup>(std::move(job), "world", "world", rank, std::move(all));
  world->set_options(options);
  return world;
}

}  // namespace tensora::distributed
