#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/serve/load_stream.h"

namespace tensora::serve {
namespace {

constexpr double kHealthEvery = 0.05, kTick = 1;

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

// GET /health again and again on a connection of its own.
class HealthProbe {
 public:
  explicit HealthProbe(const LoadPlan& plan)
      : plan_(plan), request_(http_request(plan, "GET", "/health", {})) {}
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;
  ~HealthProbe() { drop(); }

  void begin(double now) {
    if (is_waiting_) return;
    is_new_ = socket_ < 0;
    if (is_new_) socket_ = open_connection(plan_, 0);
    response_ = {};
    is_waiting_ = true;
    is_sent_ = false;
    sent_at_ = now;
    if (!is_new_) send_request();
  }
  void on_ready(double now, uint32_t events, LoadResult& result) {
    if (is_waiting_ && !is_sent_ && (events & EPOLLOUT) != 0) send_request();
    if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0) return;
    char bytes[4096];
    const ssize_t count = recv(socket_, bytes, sizeof(bytes), 0);
    if (count <= 0) {
      if (is_waiting_) ++result.failed_health;
      drop();
      return;
    }
    response_.push({bytes, static_cast<size_t>(count)}, [](std::string_view) {});
    if (!is_waiting_ || !response_.is_whole()) return;
    is_waiting_ = false;
    if (response_.status() == 200)
      result.health.push_back(now - sent_at_);
    else
      ++result.failed_health;
    if (!response_.keeps_alive()) drop();
  }
  int descriptor() const { return socket_; }
  bool wants_to_write() const { return is_waiting_ && !is_sent_; }

 private:
  void send_request() {
    is_sent_ = send(socket_, request_.data(), request_.size(), MSG_NOSIGNAL) > 0;
  }
  void drop() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    is_waiting_ = false;
  }

  const LoadPlan& plan_;
  std::string request_;
  ResponseReader response_;
  int socket_ = -1;
  bool is_waiting_ = false, is_sent_ = false, is_new_ = false;
  double sent_at_ = 0;
};

class LoadTest {
 public:
  explicit LoadTest(const LoadPlan& plan)
      : plan_(plan), maker_(plan), arrivals_(arrival_times(plan)), probe_(plan) {
    raise_file_limit();
    result_.requests.resize(arrivals_.size());
    probes_health_ = fetch(plan, "GET", "/health").status == 200 && plan.probes_health;
  }

  LoadResult run() {
    const double cpu = cpu_seconds();
    began_ = steady_seconds();
    while (finished_ < arrivals_.size()) {
      const double now = elapsed();
      launch(now);
      turn(now);
      epoll_.wait(milliseconds_to_wait(elapsed()),
                  [&](uint64_t id, uint32_t events) { on_event(id, events); });
    }
    result_.seconds = elapsed();
    result_.client_cpu_seconds = cpu_seconds() - cpu;
    return std::move(result_);
  }

 private:
  struct Slot {
    std::unique_ptr<LoadStream> stream;
    int64_t watched = 0;  // which of its connections
    uint32_t events = 0;
  };
  static constexpr uint64_t kProbe = ~uint64_t{0};

  double elapsed() const { return steady_seconds() - began_; }
  bool may_launch() const {
    return next_ < arrivals_.size() && (plan_.concurrency == 0 || busy_ < plan_.concurrency);
  }

  void launch(double now) {
    while (may_launch() && arrivals_[next_] <= now) {
      if (free_.empty()) {
        free_.push_back(slots_.size());
        slots_.push_back({std::make_unique<LoadStream>(plan_, began_)});
      }
      const size_t slot = free_.back();
      free_.pop_back();
      ++busy_;
      result_.most_at_once = std::max(result_.most_at_once, busy_);
      LoadStream& stream = *slots_[slot].stream;
      stream.begin(maker_.next(), result_.requests[next_++]);
      if (stream.is_busy() && stream.manner() == Manner::slow) ++slow_;
      after(slot, stream.is_busy() && stream.manner() == Manner::slow);
    }
  }

  // Follows what a call has changed at a stream.
  void after(size_t slot, bool was_slow) {
    Slot& it = slots_[slot];
    const int descriptor = it.stream->descriptor();
    if (!it.stream->is_busy()) {
      ++finished_;
      --busy_;
      slow_ -= was_slow;
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
    if (id == kProbe) {
      probe_.on_ready(elapsed(), events, result_);
      watch_probe();
      return;
    }
    with_stream(id, [&](LoadStream& stream) {
      stream.on_ready((events & EPOLLIN) != 0, (events & (EPOLLERR | EPOLLHUP)) != 0);
    });
  }

  void watch_probe() {
    const int descriptor = probe_.descriptor();
    if (descriptor >= 0)
      epoll_.watch(descriptor, EPOLLIN | (probe_.wants_to_write() ? EPOLLOUT : 0u), kProbe);
  }

  // What is due by the clock.
  void turn(double now) {
    if (probes_health_ && now >= health_due_) {
      probe_.begin(now);
      watch_probe();
      health_due_ = now + kHealthEvery;
    }
    const bool only_slow = slow_ > 0 && finished_ + static_cast<size_t>(slow_) == arrivals_.size();
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

  int milliseconds_to_wait(double now) const {
    double due = std::min(tick_due_, probes_health_ ? health_due_ : tick_due_);
    if (may_launch()) due = std::min(due, arrivals_[next_]);
    if (finished_ == arrivals_.size()) due = now;
    return static_cast<int>(std::ceil(std::max(0.0, due - now) * 1000));
  }

  const LoadPlan& plan_;
  RequestMaker maker_;
  std::vector<double> arrivals_;
  HealthProbe probe_;
  Epoll epoll_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  LoadResult result_;
  size_t next_ = 0, finished_ = 0;
  int64_t busy_ = 0, slow_ = 0;
  double began_ = 0, health_due_ = 0, tick_due_ = kTick, slow_since_ = 0;
  bool probes_health_ = true;
};

}  // namespace

LoadResult run_load(const LoadPlan& plan) { return LoadTest(plan).run(); }

PlainAnswer fetch(const LoadPlan& plan, const std::string& method, const std::string& path,
                  const std::string& body) {
  const int handle = open_connection(plan, 0);
  PlainAnswer answer;
  ResponseReader response;
  const std::string request = http_request(plan, method, path, body);
  size_t sent = 0;
  const double until = steady_seconds() + 10;
  bool is_open = true;
  while (is_open && !response.is_whole() && steady_seconds() < until) {
    pollfd ready{.fd = handle,
                 .events = static_cast<short>(sent < request.size() ? POLLIN | POLLOUT : POLLIN),
                 .revents = 0};
    poll(&ready, 1, 100);
    if (sent < request.size() && (ready.revents & POLLOUT) != 0) {
      const ssize_t count =
          send(handle, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<size_t>(count);
    }
    if ((ready.revents & (POLLIN | POLLERR | POLLHUP)) == 0) continue;
    char bytes[16384];
    const ssize_t count = recv(handle, bytes, sizeof(bytes), 0);
    if (count > 0)
      is_open = response.push({bytes, static_cast<size_t>(count)},
                              [&](std::string_view part) { answer.body += part; });
    else
      is_open = false;
  }
  close(handle);
  if (!response.is_whole()) response.close();
  check(response.is_whole(), "load: http://", plan.host, ":", plan.port, " does not answer");
  answer.status = response.status();
  return answer;
}

}  // namespace tensora::serve
