#include "tensora/serve/http_connection.h"

#include <boost/asio/post.hpp>

#include "tensora/serve/http_head.h"
#include "tensora/serve/router.h"

// Note [A connection's I/O]
// The socket never blocks, and is only asked for readiness, not for operations with buffers: an
// idle connection holds no buffer, and TLS (which reads and writes by itself) needs no second way.
// The read side is watched while an answer is under way, so that a client that vanishes is noticed
// although nothing is written to it, as while a prompt is prefilled. What it sends meanwhile is
// kept for later, up to a limit.

// Note [The receiving thread]
// Each step of an engine makes a write per stream, on a busy machine more than the scheduler lets a
// thread do at once: who asks for /health would wait for its turn among them. So connections begin
// at a thread that has little to do and therefore is scheduled at once. It answers what is refused
// or quick, and hands a connection over to a thread for answers when a request is neither; there
// the connection stays. Between the two threads nothing of it is touched by both: it moves only
// while it waits for nothing, and the old thread's last deed is to post it to the new one.

namespace tensora::serve {
namespace {

namespace asio = boost::asio;

constexpr size_t kMostPipelined = 64 << 10;  // bytes kept while an answer is under way
constexpr size_t kKeptCapacity = 16 << 10;   // larger buffers go when their answer is sent
constexpr int kMostReads = 16;               // before others get their turn
constexpr double kLingerSeconds = 2;

}  // namespace

Connection::Connection(ConnectionHome& home, int socket, std::unique_ptr<Channel> channel,
                       std::string address)
    : home_(&home),
      socket_(std::in_place, home.context, socket),
      channel_(std::move(channel)),
      address_(std::move(address)),
      since_(Clock::now()) {
  ++*home_->open;
}

Connection::~Connection() { --*home_->open; }

void Connection::start() {
  home_->connections.emplace(this, shared_from_this());
  on_readable();
}

void Connection::turn_away() {
  home_->connections.emplace(this, shared_from_this());
  ApiError error(503, "the server has too many connections", {}, "too_many_connections");
  error.headers = {{"retry-after", "1"}};
  refuse(error);
  if (phase_ != Phase::closed) on_readable();
}

void Connection::watch_read() {
  if (watches_read_) return;
  watches_read_ = true;
  socket_->async_wait(socket_->wait_read, [self = shared_from_this()](const auto& error) {
    self->watches_read_ = false;
    if (self->phase_ == Phase::closed) return;
    if (self->is_moving_) return self->move_on();
    if (error || !self->on_readable()) return;
    self->flush();  // TLS may have waited for the peer before it could write
  });
}

void Connection::watch_write(bool for_reading) {
  if (watches_write_) return;
  watches_write_ = true;
  socket_->async_wait(socket_->wait_write, [self = shared_from_this(), for_reading](const auto& e) {
    self->watches_write_ = false;
    if (self->phase_ == Phase::closed) return;
    if (self->is_moving_) return self->move_on();
    if (e) return;
    if (for_reading && !self->on_readable()) return;
    if (self->push_out()) self->flush();
  });
}

// False: the connection has moved to another thread.
bool Connection::on_readable() {
  const auto self = shared_from_this();
  for (int i = 0; i < kMostReads; ++i) {
    if (phase_ == Phase::answering && input_.size() >= kMostPipelined) return true;
    const auto got = channel_->read(home_->scratch.data(), home_->scratch.size());
    if (got.is_closed) {
      close();
      return true;
    }
    if (got.wait == Channel::Wait::readable) {
      watch_read();
      return true;
    }
    if (got.wait == Channel::Wait::writable) {
      watch_write(/*for_reading=*/true);
      return true;
    }
    if (phase_ == Phase::lingering) continue;
    input_.append(home_->scratch.data(), got.bytes);
    if (phase_ == Phase::body) charge_body(got.bytes);
    if (phase_ != Phase::closed && !on_input()) return false;
    if (phase_ == Phase::closed) return true;
  }
  asio::post(home_->context, [self] {
    if (self->phase_ != Phase::closed && !self->watches_read_) self->on_readable();
  });
  return true;
}

// False: the connection moves to another thread.
bool Connection::on_input() {
  try {
    if (phase_ == Phase::head) {
      if (input_.empty()) return true;
      if (!parser_) {
        parser_ = std::make_unique<HttpParser>(home_->options->limits);
        since_ = Clock::now();
      }
      if (!parser_->read_head(input_) || !on_head()) return true;
      if (moves_on()) {
        move_on();
        return false;
      }
    }
    if (phase_ == Phase::body && parser_->read_body(input_)) dispatch();
  } catch (const ApiError& error) {
    home_->handler->on_bad_request(address_, error.status, error.what());
    refuse(error);
  } catch (const std::exception& error) {
    home_->handler->on_bad_request(address_, 500, error.what());
    refuse(ApiError(500, "internal error"));
  }
  return true;
}

// See Note [The receiving thread].
bool Connection::moves_on() const {
  return home_->next_home && sending_.empty() && !home_->handler->is_quick(parser_->request());
}

void Connection::move_on() {
  const auto self = shared_from_this();
  if (watches_read_ || watches_write_) {  // as behind a request that came in the same packet
    is_moving_ = true;
    socket_->cancel();
    return;
  }
  is_moving_ = false;
  home_->connections.erase(this);
  home_ = &home_->next_home();
  const int socket = socket_->release();
  socket_.emplace(home_->context, socket);
  asio::post(home_->context, [self] {
    self->home_->connections.emplace(self.get(), self);
    if (self->home_->is_closing) return self->close();
    self->on_input();
    if (self->phase_ != Phase::closed) self->on_readable();
  });
}

// Many large bodies that come slowly would fill the memory, each within its own limit.
void Connection::charge_body(size_t bytes) {
  charged_ += bytes;
  const size_t all = home_->body_bytes->fetch_add(bytes) + bytes;
  if (all <= home_->options->most_body_bytes) return;
  ApiError error(503, "the server is reading too many large requests", {}, "overloaded");
  error.headers = {{"retry-after", "1"}};
  home_->handler->on_bad_request(address_, error.status, error.what());
  refuse(error);
}

void Connection::release_body() { *home_->body_bytes -= std::exchange(charged_, 0); }

// Returns whether the body is to be read.
bool Connection::on_head() {
  HttpRequest& request = parser_->request();
  const std::string_view id = request.header("x-request-id");
  request.id = is_good_request_id(id) ? std::string(id) : fresh_request_id();
  request.address = address_;
  phase_ = Phase::body;
  since_ = Clock::now();
  if (auto response = home_->handler->answer_head(request)) {
    expect_reply(
        {.id = request.id,
         .is_head = request.method == "HEAD",
         .is_http_1_0 = parser_->is_http_1_0(),
         .keeps_alive = parser_->keeps_alive() && !parser_->is_http_1_0() && !parser_->has_body()});
    HttpReply(reply_).send(std::move(*response));
    return false;
  }
  if (parser_->expects_continue() && parser_->has_body() && input_.empty()) {
    sending_ = "HTTP/1.1 100 Continue\r\n\r\n";
    push_out();
  }
  return phase_ == Phase::body;
}

void Connection::refuse(const ApiError& error) {
  expect_reply({.id = fresh_request_id(), .keeps_alive = false});
  HttpReply(reply_).send(openai_error(error));
  flush();
}

void Connection::expect_reply(ReplyFacts facts) {
  phase_ = Phase::answering;
  since_ = Clock::now();
  reply_ = std::make_shared<ReplyState>(home_->outlet, std::move(facts));
  reply_->connection = this;
  reply_->count_queued(sending_.size() - sent_);  // perhaps of "100 Continue"
  parser_.reset();
  ++*home_->active;
}

void Connection::dispatch() {
  HttpRequest request = std::move(parser_->request());
  expect_reply({.id = request.id,
                .is_head = request.method == "HEAD",
                .is_http_1_0 = parser_->is_http_1_0(),
                .keeps_alive = parser_->keeps_alive() && !parser_->is_http_1_0()});
  try {
    home_->handler->handle(std::move(request), std::make_shared<HttpReply>(reply_));
  } catch (const std::exception& error) {  // the reply was dropped, which answers
    home_->handler->on_bad_request(address_, 500, error.what());
  }
}

// Returns whether all of `sending_` is with the socket.
bool Connection::push_out() {
  while (sent_ < sending_.size()) {
    const auto put = channel_->write(std::string_view(sending_).substr(sent_));
    if (put.is_closed) {
      close();
      return false;
    }
    if (put.wait == Channel::Wait::writable) {
      watch_write(/*for_reading=*/false);
      return false;
    }
    if (put.wait == Channel::Wait::readable) {
      watch_read();
      return false;
    }
    if (put.bytes == 0) continue;
    sent_ += put.bytes;
    since_ = phase_ == Phase::answering ? Clock::now() : since_;
    if (reply_) reply_->count_sent(put.bytes);
  }
  sent_ = 0;
  sending_.clear();
  return true;
}

void Connection::flush() {
  const auto self = shared_from_this();
  while (phase_ == Phase::answering && push_out()) {
    const bool is_whole = reply_->take(sending_);
    if (!sending_.empty()) {
      release_body();  // who answers has read it
      since_ = Clock::now();
      continue;
    }
    if (is_whole) on_answered();
    return;
  }
}

void Connection::on_answered() {
  const bool goes_on = reply_->keeps_alive();
  const bool is_broken = reply_->is_broken();
  reply_->connection = nullptr;
  reply_.reset();
  --*home_->active;
  if (sending_.capacity() > kKeptCapacity) sending_ = {};
  if (is_broken) return close();
  if (!goes_on) return linger();
  phase_ = Phase::head;
  is_first_ = false;
  since_ = Clock::now();
  if (!on_input() || watches_read_) return;
  // Reading stopped because the client sent far ahead.
  asio::post(home_->context, [self = shared_from_this()] {
    if (self->phase_ != Phase::closed && !self->watches_read_) self->on_readable();
  });
}

// A socket that is closed with bytes unread resets the connection, and the client may lose the
// answer: reads on for a while.
void Connection::linger() {
  phase_ = Phase::lingering;
  since_ = Clock::now();
  input_ = {};
  channel_->finish();
  watch_read();
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  const auto self = shared_from_this();
  phase_ = Phase::closed;
  release_body();
  boost::system::error_code ignored;
  socket_->close(ignored);
  parser_.reset();
  home_->connections.erase(this);
  if (!reply_) return;
  const auto reply = std::move(reply_);
  reply->connection = nullptr;
  --*home_->active;
  reply->lose();
}

void Connection::check_time(Clock::time_point now) {
  const HttpServerOptions& options = *home_->options;
  const double passed = std::chrono::duration<double>(now - since_).count();
  const auto time_out = [&](const char* what) {
    home_->handler->on_bad_request(address_, 408, what);
    refuse(ApiError(408, what, {}, "timeout"));
  };
  switch (phase_) {
    case Phase::head:
      if (parser_ && passed > options.header_seconds)
        time_out("the request's headers took too long");
      else if (!parser_ && passed > (is_first_ ? options.header_seconds : options.idle_seconds))
        close();
      return;
    case Phase::body:
      if (passed > options.body_seconds) time_out("the request's body took too long");
      return;
    case Phase::answering:
      if (sent_ < sending_.size() && passed > options.stalled_seconds) close();
      return;
    case Phase::lingering:
      if (passed > kLingerSeconds) close();
      return;
    case Phase::closed:
      return;
  }
}

}  // namespace tensora::serve
