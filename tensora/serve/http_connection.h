#pragma once

// For the HTTP server's own sources: it includes Asio.
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "tensora/serve/api_error.h"
#include "tensora/serve/channel.h"
#include "tensora/serve/http_parser.h"
#include "tensora/serve/http_reply.h"
#include "tensora/serve/http_server.h"

namespace tensora::serve {

using Clock = std::chrono::steady_clock;

/// What the connections of one I/O thread share.
struct ConnectionHome {
  boost::asio::io_context context{1};
  const HttpServerOptions* options = nullptr;
  HttpHandler* handler = nullptr;
  std::shared_ptr<Outlet> outlet = nullptr;
  std::deque<std::shared_ptr<ReplyState>> to_flush = {};  // taken from the outlet
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections = {};
  std::vector<char> scratch = std::vector<char>(64 << 10);  // bytes that were just read
  std::function<ConnectionHome&()> next_home = nullptr;     // see Note [The receiving thread]
  bool is_closing = false;
  std::atomic<size_t>* open = nullptr;        // connections of all threads
  std::atomic<size_t>* active = nullptr;      // answers of all threads
  std::atomic<size_t>* body_bytes = nullptr;  // of requests that are not answered yet
};

/// One client. All functions are called on the thread of its home, which may change.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHome& home, int socket, std::unique_ptr<Channel> channel,
             std::string address);
  ~Connection();

  void start();
  /// There are too many: says so and closes.
  void turn_away();
  /// Something new may be in the reply.
  void flush();
  /// Closes the connection if the client is too slow.
  void check_time(Clock::time_point now);
  /// The client is gone, or has to go.
  void close();

 private:
  enum class Phase : unsigned char { head, body, answering, lingering, closed };

  void watch_read();
  void watch_write(bool for_reading);
  bool on_readable();
  bool on_input();
  bool moves_on() const;
  void move_on();
  bool on_head();
  void charge_body(size_t bytes);
  void release_body();
  void refuse(const ApiError& error);
  void expect_reply(ReplyFacts facts);
  void dispatch();
  void on_answered();
  void linger();
  bool push_out();

  ConnectionHome* home_;
  std::optional<boost::asio::posix::stream_descriptor> socket_;
  std::unique_ptr<Channel> channel_;
  const std::string address_;
  Phase phase_ = Phase::head;
  bool watches_read_ = false, watches_write_ = false;
  bool is_moving_ = false;   // to another thread, as soon as it waits for nothing
  bool is_first_ = true;     // no request has been answered yet
  Clock::time_point since_;  // when the phase began; when answering, when bytes were last taken
  std::string input_;
  std::unique_ptr<HttpParser> parser_;
  std::shared_ptr<ReplyState> reply_;
  std::string sending_;
  size_t sent_ = 0;     // bytes of `sending_`
  size_t charged_ = 0;  // bytes of the request's body, as far as it is here
};

}  // namespace tensora::serve
