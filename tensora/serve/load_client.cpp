#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "tensora/base/check.h"
#include "tensora/serve/load_stream.h"

namespace tensora::serve {
namespace {

constexpr double kHealthEvery = 0.05, kFirstProbe = 1, kTick = 1;

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// As many files as the system lets this process open: every stream is one.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Epoll {
 public:
  Epoll() : handle_(epoll_create1(EPOLL_CLOEXEC)) { ensure(handle_ >= 0, "epoll_create1 failed"); }
  Epoll(const Epoll&) = delete;
  Epoll& operator=(const Epoll&) = delete;
  ~Epoll() { close(handle_); }

  // A number may belong to another connection than before, of which epoll does not know.
  void watch(int descriptor, uint32_t events, uint64_t id) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (epoll_ctl(handle_, EPOLL_CTL_MOD, descriptor, &event) != 0)
      epoll_ctl(handle_, EPOLL_CTL_ADD, descriptor, &event);
  }
  template <class OnEvent>
  void wait(int milliseconds, const OnEvent& on_event) {
    epoll_event events[256];
    const int count = epoll_wait(handle_, events, 256, milliseconds);
    for (int i = 0; i < count; ++i) on_event(events[i].data.u64, events[i].events);
  }

 private:
  int handle_;
};

// Sends a request and reads the answer, for as long as `goes_on` says so. Whether all of it came.
template <class GoesOn, class OnPart>
bool converse(LoadConnection& connection, const std::string& request, ResponseReader& response,
              const GoesOn& goes_on, const OnPart& on_part) {
  size_t sent = 0;
  bool waits_for_handshake = false;
  while (!response.is_whole() && goes_on()) {
    const bool sends = sent < request.size() && !waits_for_handshake;
    pollfd ready{.fd = connection.descriptor(),
                 .events = static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN),
                 .revents = 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    if (sent < request.size()) {
      const auto result = connection.channel().write(std::string_view(request).substr(sent));
      sent += result.bytes;
      waits_for_handshake = result.wait == Channel::Wait::readable;
      if (result.is_closed) return false;
      continue;
    }
    char bytes[16384];
    const auto result = connection.channel().read(bytes, sizeof(bytes));
    if (result.is_closed) return response.close();
    if (!response.push({bytes, result.bytes}, on_part)) return false;
  }
  return response.is_whole();
}

// GET /health again and again, on a connection and a thread of its own: the thread that drives the
// streams would look at the answer only after what else has come.
class HealthProbe {
 public:
  explicit HealthProbe(const LoadPlan& plan)
      : plan_(plan),
        request_(http_request(plan, "GET", "/health", {})),
        thread_([this] { run(); }) {}
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;
  ~HealthProbe() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  /// After `stop`.
  void add_to(LoadResult& result) const {
    result.health = times_;
    result.failed_health = failed_;
  }

 private:
  // A run that is over at once is probed once, too.
  void run() {
    do {
      const double began = steady_seconds();
      const bool is_first = times_.empty() && failed_ == 0;
      const bool is_fine = ask(is_first ? began + kFirstProbe : 0);
      if (is_fine)
        times_.push_back(steady_seconds() - began);
      else if (!is_over_)
        ++failed_;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock,
                        std::chrono::duration<double>(began + kHealthEvery - steady_seconds()),
                        [&] { return is_over_.load(); });
    } while (!is_over_);
  }
  // Gives up when the run is over, but not before `until`.
  bool ask(double until) {
    try {
      if (!connection_.is_open()) connection_.open(plan_);
    } catch (const Error&) {
      return false;
    }
    ResponseReader response;
    const bool is_whole = converse(
        connection_, request_, response, [&] { return !is_over_ || steady_seconds() < until; },
        [](std::string_view) {});
    if (!is_whole || !response.keeps_alive()) connection_.close();
    return is_whole && response.status() == 200;
  }

  const LoadPlan& plan_;
  const std::string request_;
  LoadConnection connection_;
  std::vector<double> times_;
  int64_t failed_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

// What the threads of a load test share.
class LoadTest {
 public:
  explicit LoadTest(const LoadPlan& plan)
      : plan(plan), maker_(plan), arrivals_(arrival_times(plan)) {
    result_.requests.resize(arrivals_.size());
  }

  struct Next {
    RequestMaker::Made made;
    RequestRecord& record;
  };
  /// The next request, if it is due.
  std::optional<Next> take(double now) {
    const std::lock_guard lock(mutex_);
    if (next_ >= arrivals_.size() || arrivals_[next_] > now) return std::nullopt;
    result_.most_at_once = std::max(result_.most_at_once, ++busy_);
    return Next{maker_.next(), result_.requests[next_++]};
  }
  /// When that is; none: all have been taken.
  std::optional<double> next_due() {
    const std::lock_guard lock(mutex_);
    return next_ < arrivals_.size() ? std::optional(arrivals_[next_]) : std::nullopt;
  }
  void finish_one() {
    const std::lock_guard lock(mutex_);
    ++finished_;
    --busy_;
  }
  void add_connections(int64_t count) {
    const std::lock_guard lock(mutex_);
    result_.connections += count;
  }
  void add_slow(int64_t count) { slow_ += count; }
  /// Whether all requests that are not finished are those of slow readers.
  bool only_slow() {
    const std::lock_guard lock(mutex_);
    return slow_ > 0 && finished_ + static_cast<size_t>(slow_) == arrivals_.size();
  }
  /// A thread cannot go on: the others end, too.
  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    has_failed = true;
  }
  LoadResult take_result() {
    if (error_) std::rethrow_exception(error_);
    return std::move(result_);
  }

  const LoadPlan& plan;
  const double began = steady_seconds();
  std::atomic<bool> has_failed = false;

 private:
  RequestMaker maker_;
  const std::vector<double> arrivals_;
  std::mutex mutex_;  // of what follows
  LoadResult result_;
  size_t next_ = 0, finished_ = 0;
  int64_t busy_ = 0;
  std::atomic<int64_t> slow_ = 0;
  std::exception_ptr error_;
};

// The streams of one thread.
class LoadThread {
 public:
  /// `concurrency`: 0 for no limit.
  LoadThread(LoadTest& test, int64_t concurrency)
      : test_(test), plan_(test.plan), concurrency_(concurrency) {}

  void run() {
    try {
      while (!test_.has_failed) {
        const double now = elapsed();
        launch(now);
        turn(now);
        const std::optional<double> due = test_.next_due();
        if (!due && busy_ == 0) break;
        epoll_.wait(milliseconds_to_wait(elapsed(), due),
                    [&](uint64_t id, uint32_t events) { on_event(id, events); });
      }
    } catch (...) {
      test_.fail(std::current_exception());
    }
    for (const Slot& slot : slots_) test_.add_connections(slot.stream->connection());
  }

 private:
  struct Slot {
    std::unique_ptr<LoadStream> stream;
    int64_t watched = 0;  // which of its connections
    uint32_t events = 0;
  };

  double elapsed() const { return steady_seconds() - test_.began; }
  bool has_room() const { return concurrency_ == 0 || busy_ < concurrency_; }

  void launch(double now) {
    while (has_room()) {
      auto next = test_.take(now);
      if (!next) return;
      if (free_.empty()) {
        free_.push_back(slots_.size());
        slots_.push_back({std::make_unique<LoadStream>(plan_, test_.began)});
      }
      const size_t slot = free_.back();
      free_.pop_back();
      ++busy_;
      LoadStream& stream = *slots_[slot].stream;
      stream.begin(std::move(next->made), next->record);
      const bool is_slow = stream.is_busy() && stream.manner() == Manner::slow;
      if (is_slow) test_.add_slow(1);
      after(slot, is_slow);
    }
  }

  // Follows what a call has changed at a stream.
  void after(size_t slot, bool was_slow) {
    Slot& it = slots_[slot];
    const int descriptor = it.stream->descriptor();
    if (!it.stream->is_busy()) {
      test_.finish_one();
      --busy_;
      if (was_slow) test_.add_slow(-1);
      free_.push_back(slot);
    }
    const uint32_t events = (it.stream->wants_to_write() ? EPOLLOUT : 0u) |
                            (it.stream->wants_to_read() || !it.stream->is_busy() ? EPOLLIN : 0u);
    if (descriptor >= 0 && (it.stream->connection() != it.watched || events != it.events))
      epoll_.watch(descriptor, events, slot);
    it.watched = it.stream->connection();
    it.events = events;
  }

  template <class Call>
  void with_stream(size_t slot, const Call& call) {
    LoadStream& stream = *slots_[slot].stream;
    const bool was_busy = stream.is_busy();
    const bool was_slow = was_busy && stream.manner() == Manner::slow;
    call(stream);
    if (was_busy) after(slot, was_slow);
  }

  void on_event(uint64_t id, uint32_t events) {
    with_stream(id, [&](LoadStream& stream) {
      stream.on_ready((events & EPOLLIN) != 0, (events & (EPOLLERR | EPOLLHUP)) != 0);
    });
  }

  // What is due by the clock.
  void turn(double now) {
    const bool only_slow = busy_ > 0 && now >= tick_due_ && test_.only_slow();
    if (only_slow && slow_since_ == 0) slow_since_ = now;
    if (now < tick_due_) return;
    tick_due_ = now + kTick;
    for (size_t i = 0; i < slots_.size(); ++i)
      with_stream(i, [&](LoadStream& stream) {
        if (!stream.is_busy()) return;
        if (stream.manner() == Manner::slow) stream.read_slowly();
        if (!stream.is_busy()) return;
        if (stream.manner() == Manner::slow && only_slow && now > slow_since_ + plan_.patience)
          stream.leave(false);
        else if (now - stream.began_at() > plan_.timeout)
          stream.fail("no answer within the time limit");
      });
  }

  int milliseconds_to_wait(double now, const std::optional<double>& next_due) const {
    const double due = next_due && has_room() ? std::min(tick_due_, *next_due) : tick_due_;
    return static_cast<int>(std::ceil(std::max(0.0, due - now) * 1000));
  }

  LoadTest& test_;
  const LoadPlan& plan_;
  const int64_t concurrency_;
  Epoll epoll_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  int64_t busy_ = 0;
  double tick_due_ = kTick, slow_since_ = 0;
};

// One thread drives as many streams as many servers have; a GPU's may write more than it can read.
int64_t threads_of(const LoadPlan& plan) {
  constexpr int64_t kStreamsOfAThread = 128, kMost = 8;
  const int64_t streams = plan.concurrency > 0 ? plan.concurrency : plan.requests;
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t chosen = std::min({streams / kStreamsOfAThread, cores / 4, kMost});
  const int64_t threads = plan.threads > 0 ? plan.threads : chosen;
  return std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, streams));
}

}  // namespace

LoadResult run_load(const LoadPlan& plan) {
  raise_file_limit();
  std::optional<HealthProbe> probe;
  if (fetch(plan, "GET", "/health").status == 200 && plan.probes_health) probe.emplace(plan);
  const double cpu = cpu_seconds();
  LoadTest test(plan);
  const int64_t threads = threads_of(plan);
  const auto drive = [&](int64_t thread) {
    LoadThread(test, plan.concurrency / threads + (thread < plan.concurrency % threads ? 1 : 0))
        .run();
  };
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < threads; ++i) others.emplace_back([&drive, i] { drive(i); });
  drive(0);
  others.clear();  // waits for them
  const double seconds = steady_seconds() - test.began;
  if (probe) probe->stop();
  LoadResult result = test.take_result();
  if (probe) probe->add_to(result);
  result.seconds = seconds;
  result.threads = threads;
  result.client_cpu_seconds = cpu_seconds() - cpu;
  return result;
}

PlainAnswer fetch(const LoadPlan& plan, const std::string& method, const std::string& path,
                  const std::string& body) {
  LoadConnection connection;
  connection.open(plan);
  PlainAnswer answer;
  ResponseReader response;
  const std::string request = http_request(plan, method, path, body);
  const double until = steady_seconds() + 10;
  const bool is_whole = converse(
      connection, request, response, [&] { return steady_seconds() < until; },
      [&](std::string_view part) { answer.body += part; });
  const std::string problem = connection.channel().problem();
  check(is_whole, "load: ", plan.tls ? "https://" : "http://", plan.host, ":", plan.port,
        " does not answer", problem.empty() ? "" : ": ", problem);
  answer.status = response.status();
  return answer;
}

}  // namespace tensora::serve
