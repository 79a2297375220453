#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tensora::serve {

/// A request that has been answered; never what it asked or what was answered.
struct AccessRecord {
  std::string id, address, key, method, path;
  int status = 0;
  uint64_t bytes_in = 0, bytes_out = 0;  // of the bodies
  double seconds = 0;
  bool is_gone = false;  // the client closed the connection before the end
};

/// Lines of JSON in a file or on standard error. They are written by a thread of their own: a slow
/// disk or terminal holds up nobody. Lines that come too fast for it are counted and dropped.
class AccessLog {
 public:
  /// "-": standard error; "": nothing is written. Throws Error for a file that cannot be opened.
  explicit AccessLog(const std::string& path);
  /// Writes what waits.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void add(const AccessRecord& record);
  /// Something else that went on: {"time", "event", "id", "message"}.
  void event(std::string_view event, std::string_view message, std::string_view id = {});

 private:
  void push(std::string line);
  void work();

  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  uint64_t dropped_ = 0;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace tensora::serve
