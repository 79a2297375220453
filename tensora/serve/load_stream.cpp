#include "tensora/serve/load_stream.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"

namespace tensora::serve {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void LoadConnection::open(const LoadPlan& plan, int receive_buffer) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int wrong =
      getaddrinfo(plan.host.c_str(), std::to_string(plan.port).c_str(), &hints, &found);
  check(wrong == 0, "load: ", plan.host, ": ", gai_strerror(wrong));
  const int handle =
      socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  const int error = errno;
  if (handle >= 0) {
    const int yes = 1;
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (receive_buffer > 0)
      setsockopt(handle, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    // What is wrong shows when the socket is used.
    [[maybe_unused]] const int state = connect(handle, found->ai_addr, found->ai_addrlen);
  }
  freeaddrinfo(found);
  check(handle >= 0, "load: no more connections can be opened: ", std::strerror(error));
  close();
  socket_ = handle;
  channel_ = plan.tls ? plan.tls->channel(handle, plan.host) : plain_channel(handle);
}

void LoadConnection::close() {
  channel_.reset();
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void LoadStream::begin(RequestMaker::Made made, RequestRecord& record) {
  made_ = std::move(made);
  record_ = &record;
  record.manner = made_.manner;
  record.begin = steady_seconds() - began_;
  sent_ = 0;
  is_streamed_ = false;
  response_ = {};
  events_ = {};
  error_body_.clear();
  if (made_.manner == Manner::slow)
    connection_.close();  // the size of its buffer must be set before
  is_reused_ = connection_.is_open();
  waits_for_handshake_ = false;
  if (!is_reused_) open(made_.manner == Manner::slow ? 2048 : 0);
  if (is_reused_) write();
}

void LoadStream::on_ready(bool readable, bool broken) {
  const bool was_busy = is_busy();
  if (is_sending()) write();
  if (is_busy() && !is_sending() && (readable || broken) && wants_to_read()) read(size_t{1} << 20);
  if (is_busy() && broken && made_.manner == Manner::slow) on_closed();
  if (!was_busy && (readable || broken))
    connection_.close();  // a kept connection that the server closes
}

void LoadStream::read_slowly() {
  if (is_busy()) read(100);
}

void LoadStream::write() {
  while (is_sending()) {
    const auto result = connection_.channel().write(std::string_view(made_.bytes).substr(sent_));
    sent_ += result.bytes;
    if (result.is_closed) {
      // A server may refuse rubbish before it has read all of it: the answer is still there.
      if (made_.manner == Manner::rubbish && errno == EPIPE)
        sent_ = made_.bytes.size();
      else if (!retry())
        fail(concat("sending: ", problem()));
      return;
    }
    waits_for_handshake_ = result.wait == Channel::Wait::readable;
    if (result.wait != Channel::Wait::none) return;
  }
  if (made_.manner == Manner::vanishing && made_.last_event == 0) leave(made_.resets);
}

void LoadStream::read(size_t most) {
  char bytes[65536];
  while (is_busy() && most > 0) {
    const auto result = connection_.channel().read(bytes, std::min(most, sizeof(bytes)));
    if (result.is_closed) return on_closed();
    if (result.wait != Channel::Wait::none) return;
    most -= result.bytes;
    take({bytes, result.bytes});
    // A plain socket that gave less has no more; another call would only say so.
    if (!plan_.tls && result.bytes < sizeof(bytes)) return;
  }
}

// A part of the answer.
void LoadStream::take(std::string_view bytes) {
  const double now = steady_seconds() - began_;
  const bool fine = response_.push(bytes, [&](std::string_view part) {
    if (response_.status() != 200)
      error_body_ += part.substr(0, 4096);
    else
      events_.push(part, [&](std::string_view data) { on_event(data, now); });
  });
  if (!is_busy()) return;  // a client that has left
  if (!fine)
    fail("the answer is not HTTP");
  else if (response_.is_whole())
    finish();
}

void LoadStream::on_event(std::string_view data, double now) {
  if (!is_busy()) return;
  if (data == "[DONE]") {
    is_streamed_ = true;
    return;
  }
  if (has_text(data)) {
    if (record_->events++ == 0)
      record_->first = now;
    else
      record_->gaps.push_back(static_cast<float>(now - record_->last));
    record_->last = now;
    if (made_.manner == Manner::vanishing && record_->events >= made_.last_event)
      leave(made_.resets);
    return;
  }
  // The usage comes once, at the end, and so does an error.
  if (data.find("\"usage\"") == data.npos && data.find("\"error\"") == data.npos) return;
  const auto json = nlohmann::json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) {
    record_->prompt_tokens = usage->value("prompt_tokens", int64_t{0});
    record_->output_tokens = usage->value("completion_tokens", int64_t{0});
  }
  if (const auto error = json.find("error"); error != json.end() && error->is_object())
    record_->error = error->value("message", "an error in the stream");
}

void LoadStream::finish() {
  record_->status = response_.status();
  const bool is_fine = response_.status() == 200 && is_streamed_ && record_->error.empty();
  record_->is_complete = is_fine;
  if (!is_fine && record_->error.empty()) {
    const auto json = nlohmann::json::parse(error_body_, nullptr, /*allow_exceptions=*/false);
    const bool has_message = json.is_object() && json.contains("error") &&
                             json["error"].is_object() && json["error"].contains("message");
    record_->error = response_.status() == 200 ? "the stream ended without [DONE]"
                     : has_message
                         ? concat(response_.status(), ": ", json["error"]["message"].dump())
                         : concat("HTTP status ", response_.status());
  }
  record_ = nullptr;
  if (!response_.keeps_alive() || made_.manner != Manner::proper) connection_.close();
}

void LoadStream::on_closed() {
  if (response_.close()) {
    finish();
  } else if (!retry()) {
    fail(problem());
  }
}

// Why the connection was closed.
std::string LoadStream::problem() {
  if (std::string known = connection_.channel().problem(); !known.empty()) return known;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(connection_.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error != 0 ? concat("the connection broke: ", std::strerror(error))
                    : std::string("the server closed the connection");
}

// A kept connection that the server closed just when it was used again: not the server's fault.
bool LoadStream::retry() {
  if (!is_reused_ || response_.status() != 0) return false;
  connection_.close();
  is_reused_ = waits_for_handshake_ = false;
  sent_ = 0;
  open(0);
  return true;
}

void LoadStream::fail(const std::string& why) {
  record_->status = response_.status();
  record_->error = why;
  record_ = nullptr;
  connection_.close();
}

void LoadStream::leave(bool resets) {
  record_->status = response_.status();
  record_ = nullptr;
  if (resets) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(connection_.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  connection_.close();
}

void LoadStream::open(int receive_buffer) {
  connection_.open(plan_, receive_buffer);
  ++connections_;
}

}  // namespace tensora::serve
