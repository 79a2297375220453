#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tensora::serve {

/// A client that sends bytes as they are given and reads what comes.
class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0)
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("the test's client cannot connect");
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), got_(std::move(other.got_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// A reset instead of an orderly end.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close();
  }
  RawClient& send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) break;  // the server closed; what it said can be read
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return *this;
  }
  /// Reads until the text has come; throws after some seconds or at the end. Returns what came up
  /// to its end.
  std::string read_until(std::string_view text, double seconds = 5) {
    size_t found = got_.find(text);
    while (found == std::string::npos) {
      if (!read_some(seconds))
        throw std::runtime_error("no '" + std::string(text) + "' in: " + got_);
      found = got_.find(text);
    }
    std::string out = got_.substr(0, found + text.size());
    got_.erase(0, out.size());
    return out;
  }
  std::string read_bytes(size_t count, double seconds = 5) {
    while (got_.size() < count)
      if (!read_some(seconds)) throw std::runtime_error("too few bytes: " + got_);
    std::string out = got_.substr(0, count);
    got_.erase(0, count);
    return out;
  }
  /// Everything up to the end of the connection; throws after some seconds.
  std::string read_all(double seconds = 5) {
    while (read_some(seconds)) {
    }
    return std::exchange(got_, {});
  }
  /// The head and the body of an answer with a length.
  std::string read_answer() {
    std::string head = read_until("\r\n\r\n");
    const size_t at = head.find("content-length: ");
    if (at == std::string::npos) return head;
    return head + read_bytes(std::stoul(head.substr(at + 16)));
  }
  /// Whether nothing comes for so long.
  bool is_silent(double seconds) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, static_cast<int>(seconds * 1e3)) == 0;
  }
  int socket() const { return socket_; }

 private:
  bool read_some(double seconds) {
    if (is_silent(seconds)) throw std::runtime_error("nothing comes; so far: " + got_);
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (count > 0) got_.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }

  int socket_;
  std::string got_;
};

/// "HTTP/1.1 404 Not Found..." is 404; 0: it is no answer.
inline int status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(std::string(answer.substr(9, 3))) : 0;
}

/// Waits until something is true; false after some seconds.
template <class Test>
bool eventually(const Test& test, double seconds = 5) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!test()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::usleep(500);
  }
  return true;
}

}  // namespace tensora::serve
