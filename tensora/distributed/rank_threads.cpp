#include "tensora/distributed/rank_threads.h"

#include "tensora/base/thread_pool.h"
#include "tensora/distributed/threads.h"

namespace tensora::distributed {
namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

InlineLoops::InlineLoops() : before_(tensora::detail::inside_parallel_region) {
  tensora::detail::inside_parallel_region = true;
}
InlineLoops::~InlineLoops() { tensora::detail::inside_parallel_region = before_; }

RankThreads::RankThreads(int ranks) : ranks_(ranks) {
  runner_ =
      std::jthread([this] { run_ranks(ranks_, [this](ProcessGroup& world) { serve(world); }); });
}

RankThreads::~RankThreads() {
  ends_ = true;
  ++calls_;
  calls_.notify_all();
}

void RankThreads::run(const std::function<void(ProcessGroup& world)>& body) {
  const std::lock_guard one(call_);
  if (error_) fail("the ranks have failed before: ", text_of(error_));
  body_ = &body;
  running_ = ranks_;
  ++calls_;
  calls_.notify_all();
  for (int left = running_; left > 0; left = running_) running_.wait(left);
  if (error_) std::rethrow_exception(error_);
}

void RankThreads::note(ProcessGroup& world, const std::exception_ptr& error) {
  {
    const std::lock_guard lock(errors_);
    if (error_) return;
    error_ = error;
  }
  world.abort_group(concat("rank ", world.rank(), " failed: ", text_of(error)), world.rank());
}

void RankThreads::serve(ProcessGroup& world) {
  for (uint32_t seen = 0;;) {
    calls_.wait(seen);
    ++seen;
    if (ends_) return;
    try {
      (*body_)(world);
    } catch (...) {
      note(world, std::current_exception());
    }
    if (--running_ == 0) running_.notify_all();
  }
}

}  // namespace tensora::distributed
