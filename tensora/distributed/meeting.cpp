#include "tensora/distributed/meeting.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>

#include "tensora/base/thread_pool.h"
#include "tensora/distributed/report.h"

namespace tensora::distributed {
namespace {

bool is_point_to_point(const Collective& call) {
  return call.kind == CollectiveKind::send || call.kind == CollectiveKind::recv;
}

bool agree(const Collective& a, const Collective& b) {
  if (is_point_to_point(a))
    return a.count == b.count && a.in.dtype == b.in.dtype && a.in.device.type == b.in.device.type;
  return a.kind == b.kind && a.op == b.op && a.root == b.root && a.count == b.count &&
         a.in.dtype == b.in.dtype && a.in.device.type == b.in.device.type &&
         a.with_counts() == b.with_counts();
}

std::string quoted_counts(size_t from, size_t to, int64_t sent, int64_t expected) {
  return concat("rank ", from, " sends ", sent, " elements to rank ", to, ", which expects ",
                expected);
}

}  // namespace

std::shared_ptr<Exchange> Meeting::find_exchange(size_t rank, const Collective& call) {
  if (!is_point_to_point(call)) {
    std::shared_ptr<Exchange>& exchange = pending_[calls_made_[rank]++];
    if (!exchange) exchange = std::make_shared<Exchange>(size());
    return exchange;
  }
  const size_t other = static_cast<size_t>(call.root);
  const bool sends = call.kind == CollectiveKind::send;
  auto& waiting = mail_[sends ? std::pair(rank, other) : std::pair(other, rank)];
  // Of the exchanges between two ranks in this direction, those that wait lack the same side.
  if (!waiting.empty() && !waiting.front()->calls[rank]) {
    std::shared_ptr<Exchange> exchange = waiting.front();
    waiting.pop_front();
    return exchange;
  }
  return waiting.emplace_back(std::make_shared<Exchange>(size()));
}

void Meeting::check_agreement(size_t rank, const Exchange& exchange, const Collective& call) {
  for (size_t other = 0; other < size(); ++other) {
    const auto& theirs = exchange.calls[other];
    if (!theirs || other == rank) continue;
    if (!agree(*theirs, call))
      throw RankMismatchError(concat("group ", name_, ": the ranks called different things: rank ",
                                     global_ranks_[other], " ", to_string(*theirs), "; rank ",
                                     global_ranks_[rank], " ", to_string(call)));
    if (!call.with_counts()) continue;
    const int64_t to_me = exchange.in_counts[other][rank], from_them = call.out_counts[other];
    const int64_t to_them = call.in_counts[other], from_me = exchange.out_counts[other][rank];
    if (to_me != from_them)
      throw RankMismatchError(concat("all_to_all: ", quoted_counts(other, rank, to_me, from_them)));
    if (to_them != from_me)
      throw RankMismatchError(concat("all_to_all: ", quoted_counts(rank, other, to_them, from_me)));
  }
}

std::shared_ptr<Exchange> Meeting::come(size_t rank, const Collective& call) {
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  const uint64_t number = calls_made_[rank];
  std::shared_ptr<Exchange> exchange = find_exchange(rank, call);
  try {
    check_agreement(rank, *exchange, call);
  } catch (const RankMismatchError&) {
    fail_all(std::current_exception(), lock);
    throw;
  }
  // The caller's counts need not outlive its call.
  exchange->in_counts[rank].assign(call.in_counts.begin(), call.in_counts.end());
  exchange->out_counts[rank].assign(call.out_counts.begin(), call.out_counts.end());
  Collective& kept = exchange->calls[rank].emplace(call);
  kept.in_counts = exchange->in_counts[rank];
  kept.out_counts = exchange->out_counts[rank];
  exchange->queues[rank] = current_queue(call.in.device);
  ++exchange->arrived;
  const bool pair = is_point_to_point(call);
  if (exchange->arrived == (pair ? 2 : size())) {
    if (!pair) pending_.erase(number);
    carry_out_exchange(rank, exchange, lock);
  }
  if (lock.owns_lock()) lock.unlock();
  do_shares(rank);
  return exchange;
}

// Takes up to `most` pieces that nobody has taken. Without the mutex.
void Meeting::work_on(Exchange& exchange, size_t most) {
  const size_t count = exchange.pieces.size();
  if (exchange.next_piece.load(std::memory_order_relaxed) >= count) return;
  const auto start = Clock::now();
  std::atomic<size_t> budget = most, taken = 0;
  parallel_for(std::min<int64_t>(get_num_threads(), static_cast<int64_t>(most)), 1,
               [&](int64_t, int64_t) {
                 while (true) {
                   size_t left = budget.load();
                   do
                     if (left == 0) return;
                   while (!budget.compare_exchange_weak(left, left - 1));
                   const size_t piece = exchange.next_piece.fetch_add(1);
                   if (piece >= count) return;
                   tensora::distributed::carry_out(exchange.pieces[piece]);
                   ++taken;
                 }
               });
  if (taken == 0) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::lock_guard lock(mutex_);
  exchange.seconds += seconds;
  if (exchange.pieces_done.fetch_add(taken) + taken < count) return;
  exchange.done = true;
  exchange.kept.clear();
  std::erase_if(divided_, [&](const auto& one) { return one.get() == &exchange; });
  divided_count_ = divided_.size();
  changed_.notify_all();
}

void Meeting::do_share(size_t rank, Exchange& exchange) {
  {
    const std::lock_guard lock(mutex_);
    if (exchange.has_helped[rank]) return;
    exchange.has_helped[rank] = true;
  }
  work_on(exchange, (exchange.pieces.size() + size() - 1) / size());
}

// The share of a rank of all exchanges that it has not helped with.
void Meeting::do_shares(size_t rank) {
  if (divided_count_ == 0) return;
  std::deque<std::shared_ptr<Exchange>> now;
  {
    const std::lock_guard lock(mutex_);
    now = divided_;
  }
  for (const std::shared_ptr<Exchange>& exchange : now) do_share(rank, *exchange);
}

// What is left of an exchange and of those before it, which their ranks may be waiting for.
void Meeting::do_rest(Exchange& exchange) {
  if (divided_count_ == 0) return;
  std::deque<std::shared_ptr<Exchange>> now;
  {
    const std::lock_guard lock(mutex_);
    now = divided_;
  }
  for (const std::shared_ptr<Exchange>& one : now) {
    work_on(*one, one->pieces.size());
    if (one.get() == &exchange) return;
  }
}

void Meeting::leave(Exchange& exchange) {
  std::unique_lock lock(mutex_);
  if (exchange.pieces.empty() || exchange.done) return;
  lock.unlock();
  do_rest(exchange);
  lock.lock();
  while (!exchange.done) changed_.wait_for(lock, std::chrono::milliseconds(50));
}

void Meeting::carry_out_exchange(size_t rank, const std::shared_ptr<Exchange>& shared,
                                 std::unique_lock<std::mutex>& lock) {
  Exchange& exchange = *shared;
  std::vector<Collective> calls;
  for (const auto& call : exchange.calls)
    if (call) calls.push_back(*call);
  if (is_point_to_point(calls[0])) {
    // The same as a broadcast from the sender.
    const int sender = calls[0].kind == CollectiveKind::send ? 0 : 1;
    for (Collective& call : calls) {
      call.kind = CollectiveKind::broadcast;
      call.root = sender;
    }
  }
  exchange.at_work = true;
  lock.unlock();
  if (std::vector<CollectivePiece> pieces = pieces_of(calls); !pieces.empty()) {
    lock.lock();
    exchange.pieces = std::move(pieces);
    exchange.has_helped.assign(size(), false);
    divided_.push_back(shared);
    divided_count_ = divided_.size();
    changed_.notify_all();
    lock.unlock();
    return do_share(rank, exchange);
  }
  const auto start = Clock::now();
  std::exception_ptr error;
  const Device device = calls[0].in.device;
  const Queue here = current_queue(device);
  try {
    if (QueueControl* const control = queue_control(device.type))
      for (size_t r = 0; r < size(); ++r)
        if (exchange.calls[r] && !(exchange.queues[r] == here))
          control->order(exchange.queues[r], here);
    tensora::distributed::carry_out(calls);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  exchange.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  exchange.done_on = here;
  exchange.done = true;
  exchange.error = error;
  exchange.kept.clear();
  changed_.notify_all();
}

// A group that failed begins no exchange any more, but one at work still uses the ranks' memory.
bool Meeting::is_over(const Exchange& exchange) const {
  return exchange.done || (failure_ && !exchange.at_work);
}

bool Meeting::is_done(Exchange& exchange) {
  do_rest(exchange);
  const std::lock_guard lock(mutex_);
  return is_over(exchange);
}

void Meeting::keep(Exchange& exchange, std::shared_ptr<const void> memory) {
  const std::lock_guard lock(mutex_);
  if (!is_over(exchange)) exchange.kept.push_back(std::move(memory));
}

void Meeting::throw_if_failed(const Exchange& exchange) const {
  if (exchange.done && exchange.error) std::rethrow_exception(exchange.error);
  if (!exchange.done && failure_) std::rethrow_exception(failure_);
}

// Ranks that compute equal parts come at nearly the same time, and waking a thread takes tens of
// microseconds: a rank spins for about as long before it sleeps. Not where the ranks share cores,
// since the spinning one would keep the others from coming.
Clock::duration Meeting::spin_time(size_t ranks) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool known = ::sched_getaffinity(0, sizeof cores, &cores) == 0;
  const bool enough = known && static_cast<size_t>(CPU_COUNT(&cores)) >= ranks;
  return std::chrono::microseconds(enough ? 50 : 0);
}

void Meeting::spin(const Exchange& exchange) const {
  const auto is_done = [&] {
    return exchange.done.load(std::memory_order_acquire) || divided_count_ > 0;
  };
  if (is_done() || spin_ == Clock::duration::zero()) return;
  const auto until = Clock::now() + spin_;
  do
    for (int i = 0; i < 32 && !is_done(); ++i) _mm_pause();
  while (!is_done() && Clock::now() < until);
}

bool Meeting::wait(size_t rank, Exchange& exchange, double seconds) {
  do_rest(exchange);
  if (seconds != 0) spin(exchange);
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  const auto after = [&](double span) { return start + std::chrono::duration<double>(span); };
  bool warned = options_.warn_after <= 0;
  while (!is_over(exchange)) {
    if (awaits_finished_rank(exchange)) {
      const std::string text = concat("group ", name_, ": ", ranks_text(missing(exchange)),
                                      " returned and will not come to ", describe(exchange));
      fail_all(std::make_exception_ptr(GroupError(text)), lock);
      break;
    }
    const auto now = Clock::now();
    if (seconds >= 0 && now >= after(seconds)) return false;
    if (missing(exchange).empty()) {  // all are there, and the exchange is being carried out
      lock.unlock();
      do_rest(exchange);
      lock.lock();
      if (!is_over(exchange)) changed_.wait_for(lock, std::chrono::milliseconds(50));
      continue;
    }
    if (!warned && now >= after(options_.warn_after)) {
      warned = true;
      report(concat("rank ", global_ranks_[rank], " has waited ", options_.warn_after,
                    " s in group ", name_, " for ", ranks_text(missing(exchange)), " to come to ",
                    describe(exchange)));
    }
    if (options_.limit > 0 && now >= after(options_.limit)) {
      const std::string text =
          concat("group ", name_, ": ", ranks_text(missing(exchange)), " did not come within ",
                 options_.limit, " s to ", describe(exchange));
      fail_all(std::make_exception_ptr(GroupTimeoutError(text)), lock);
      break;
    }
    auto until = now + std::chrono::seconds(3600);
    const auto earlier = [&](double span) {
      until = std::min(until, std::chrono::time_point_cast<Clock::duration>(after(span)));
    };
    if (seconds >= 0) earlier(seconds);
    if (!warned) earlier(options_.warn_after);
    if (options_.limit > 0) earlier(options_.limit);
    changed_.wait_until(lock, until);
  }
  throw_if_failed(exchange);
  return true;
}

std::vector<int> Meeting::missing(const Exchange& exchange) const {
  std::vector<int> ranks;
  if (exchange.at_work) return ranks;
  const auto first =
      std::ranges::find_if(exchange.calls, [](const auto& c) { return c.has_value(); });
  if (first != exchange.calls.end() && is_point_to_point(**first))
    return {global_ranks_[static_cast<size_t>((*first)->root)]};
  for (size_t r = 0; r < size(); ++r)
    if (!exchange.calls[r]) ranks.push_back(global_ranks_[r]);
  return ranks;
}

bool Meeting::awaits_finished_rank(const Exchange& exchange) const {
  if (exchange.done || std::ranges::none_of(finished_, [](bool f) { return f; })) return false;
  const std::vector<int> absent = missing(exchange);
  for (size_t r = 0; r < size(); ++r)
    if (finished_[r] && std::ranges::find(absent, global_ranks_[r]) != absent.end()) return true;
  return false;
}

std::string Meeting::describe(const Exchange& exchange) const {
  for (const auto& call : exchange.calls)
    if (call) return to_string(*call);
  return "a call";
}

void Meeting::fail_locked(const std::exception_ptr& error) {
  if (!failure_) failure_ = error;
  changed_.notify_all();
}

// This group, the world that it is a part of, and the world's other parts.
void Meeting::fail_all(const std::exception_ptr& error, std::unique_lock<std::mutex>& lock) {
  fail_locked(error);
  const std::shared_ptr<Meeting> world = world_.lock();
  lock.unlock();
  (world ? *world : *this).fail(error);
  lock.lock();
}

void Meeting::fail(const std::exception_ptr& error) {
  std::vector<std::shared_ptr<Meeting>> parts;
  {
    const std::lock_guard lock(mutex_);
    fail_locked(error);
    for (const auto& [key, kept] : parts_)
      if (std::shared_ptr<Meeting> part = kept.meeting.lock()) parts.push_back(std::move(part));
  }
  for (const auto& part : parts) part->fail(error);
}

void Meeting::finish(size_t rank) {
  std::vector<std::pair<std::shared_ptr<Meeting>, size_t>> parts;
  {
    const std::lock_guard lock(mutex_);
    finished_[rank] = true;
    changed_.notify_all();
    for (const auto& [key, kept] : parts_) {
      const std::vector<int>& members = std::get<1>(key);
      const auto found = std::ranges::find(members, static_cast<int>(rank));
      if (std::shared_ptr<Meeting> part = kept.meeting.lock(); part && found != members.end())
        parts.emplace_back(std::move(part), static_cast<size_t>(found - members.begin()));
    }
  }
  for (const auto& [part, place] : parts) part->finish(place);
}

void Meeting::set_options(const GroupOptions& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
}

std::shared_ptr<Meeting> Meeting::part(const std::string& name, const std::vector<int>& members,
                                       int occurrence) {
  const std::lock_guard lock(mutex_);
  Part& kept = parts_[{name, members, occurrence}];
  std::shared_ptr<Meeting> made = kept.meeting.lock();
  if (!made) {
    std::vector<int> ranks;
    for (int member : members) ranks.push_back(global_ranks_[static_cast<size_t>(member)]);
    made = std::make_shared<Meeting>(name, std::move(ranks), options_);
    made->failure_ = failure_;
    made->world_ = world_.expired() ? weak_from_this() : world_;
    kept.meeting = kept.awaited = made;
  }
  if (++kept.takers == members.size()) kept.awaited.reset();
  return made;
}

}  // namespace tensora::distributed
