#include "tensora/distributed/threads.h"

#include <numeric>
#include <thread>

#include "tensora/base/error_kinds.h"
#include "tensora/core/rank_state.h"
#include "tensora/core/thread_state.h"
#include "tensora/distributed/meeting.h"

namespace tensora::distributed {
namespace {

class ThreadsWork final : public Work {
 public:
  ThreadsWork(std::shared_ptr<Meeting> meeting, std::shared_ptr<Exchange> exchange, size_t rank,
              Device device)
      : meeting_(std::move(meeting)),
        exchange_(std::move(exchange)),
        rank_(rank),
        device_(device) {}
  ~ThreadsWork() override { meeting_->leave(*exchange_); }
  ThreadsWork(const ThreadsWork&) = delete;
  ThreadsWork& operator=(const ThreadsWork&) = delete;

  void wait() override {
    meeting_->wait(rank_, *exchange_, -1);
    QueueControl* const control = queue_control(device_.type);
    if (!control) return;
    const Queue here = control->current(device_);
    if (!(exchange_->done_on == here)) control->order(exchange_->done_on, here);
  }
  bool wait_for(double seconds) override { return meeting_->wait(rank_, *exchange_, seconds); }
  bool done() override { return meeting_->is_done(*exchange_); }
  void keep(std::shared_ptr<const void> memory) override {
    meeting_->keep(*exchange_, std::move(memory));
  }
  double seconds() override { return done() ? exchange_->seconds : 0; }

 private:
  std::shared_ptr<Meeting> meeting_;
  std::shared_ptr<Exchange> exchange_;
  size_t rank_;
  Device device_;
};

class ThreadsGroup final : public ProcessGroup {
 public:
  ThreadsGroup(std::string name, int rank, std::shared_ptr<Meeting> meeting)
      : ProcessGroup(std::move(name), rank, meeting->global_ranks()),
        meeting_(std::move(meeting)) {}

  std::string_view backend() const override { return "threads"; }
  using ProcessGroup::abort_group;
  void abort_group(const std::string& reason, int rank) override {
    meeting_->fail(rank < 0 ? std::make_exception_ptr(GroupError(reason))
                            : std::make_exception_ptr(RankFailedError(rank, reason)));
  }
  void set_options(const GroupOptions& options) override {
    ProcessGroup::set_options(options);
    meeting_->set_options(options);
  }

 protected:
  WorkPtr start(const Collective& call) override {
    const size_t place = static_cast<size_t>(rank());
    return std::make_shared<ThreadsWork>(meeting_, meeting_->come(place, call), place,
                                         call.in.device);
  }
  std::shared_ptr<ProcessGroup> make_split(const std::string& name, int rank,
                                           const std::vector<int>& members) override {
    const int occurrence = made_[{name, members}]++;
    return std::make_shared<ThreadsGroup>(name, rank, meeting_->part(name, members, occurrence));
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  std::map<std::pair<std::string, std::vector<int>>, int> made_;  // how many splits of this kind
};

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

void run_ranks(int ranks, const std::function<void(ProcessGroup& world)>& body,
               const GroupOptions& options) {
  check_as<ValueError>(ranks >= 1 && ranks <= 4096, "run_ranks: expected 1 to 4096 ranks, got ",
                       ranks);
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto meeting = std::make_shared<Meeting>("world", all, options);
  const Generator generator = default_generator();
  const Modes modes = static_cast<const Modes&>(thread_state);
  std::mutex first;
  std::exception_ptr cause;
  const auto run = [&](int rank) {
    RankState state{generator, nullptr, {}};
    const RankScope scope(state);
    const ModesScope same_modes(modes);
    std::shared_ptr<ProcessGroup> world = make_group_of_one();
    if (ranks > 1) world = std::make_shared<ThreadsGroup>("world", rank, meeting);
    world->set_options(options);
    set_world(world);
    try {
      body(*world);
      meeting->finish(static_cast<size_t>(rank));
    } catch (...) {
      {
        const std::lock_guard lock(first);
        if (!cause) cause = std::current_exception();
      }
      meeting->fail(std::make_exception_ptr(RankFailedError(
          rank, concat("rank ", rank, " failed: ", message_of(std::current_exception())))));
    }
  };
  std::vector<std::jthread> threads;
  for (int rank : all) threads.emplace_back(run, rank);
  threads.clear();  // joins
  if (cause) std::rethrow_exception(cause);
}

}  // namespace tensora::distributed
