#include "tensora/serve/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"
#include "tensora/serve/own_thread.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostWaiting = 4 << 20;  // bytes
constexpr size_t kMostText = 512;         // bytes of a path or message

std::string time_now() {
  using std::chrono::system_clock;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32], text[48];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof(text), "%s.%03dZ", date, static_cast<int>(part.count() % 1000));
  return text;
}

std::string line_of(const nlohmann::ordered_json& fields) {
  return fields.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;  // nobody is left to tell
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

AccessLog::AccessLog(const std::string& path) {
  if (path.empty()) return;
  file_ = path == "-" ? dup(STDERR_FILENO)
                      : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  check(file_ >= 0, "serve: the log '", path, "' cannot be opened: ", std::strerror(errno));
  thread_ = std::thread([this] {
    begin_own_thread("serve-log");
    work();
  });
}

AccessLog::~AccessLog() {
  if (file_ < 0) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  ::close(file_);
}

void AccessLog::add(const AccessRecord& record) {
  if (file_ < 0) return;
  nlohmann::ordered_json fields = {{"time", time_now()},
                                   {"id", record.id},
                                   {"address", record.address},
                                   {"method", record.method},
                                   {"path", record.path.substr(0, kMostText)},
                                   {"status", record.status},
                                   {"bytes_in", record.bytes_in},
                                   {"bytes_out", record.bytes_out},
                                   {"ms", std::round(record.seconds * 1e5) / 100}};
  if (!record.key.empty()) fields["key"] = record.key;
  if (record.is_gone) fields["gone"] = true;
  push(line_of(fields));
}

void AccessLog::event(std::string_view event, std::string_view message, std::string_view id) {
  if (file_ < 0) return;
  nlohmann::ordered_json fields = {{"time", time_now()}, {"event", event}};
  if (!id.empty()) fields["id"] = id;
  fields["message"] = message.substr(0, kMostText);
  push(line_of(fields));
}

void AccessLog::push(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() > kMostWaiting) {
      ++dropped_;
      return;
    }
    waiting_ += line;
  }
  changed_.notify_one();
}

void AccessLog::work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the main thread's
  std::string lines;
  while (true) {
    bool is_last = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
      lines.clear();
      lines.swap(waiting_);
      if (dropped_ > 0)
        lines +=
            line_of({{"time", time_now()}, {"event", "log_lines_dropped"}, {"count", dropped_}});
      dropped_ = 0;
      is_last = is_ending_;
    }
    write_all(file_, lines);
    if (is_last) return;
  }
}

}  // namespace tensora::serve
