#include "tensora/distributed/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "tensora/base/check.h"

namespace tensora::distributed {
namespace {

struct AddressFree {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressFree>;

Addresses resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  check(error == 0, "the address ", address, " could not be resolved: ", ::gai_strerror(error));
  return Addresses(found);
}

void set_option(int handle, int level, int option, int value) {
  ::setsockopt(handle, level, option, &value, sizeof value);
}

// An address that nobody answers at would take minutes otherwise.
bool connect_within(int handle, const addrinfo& to, int milliseconds) {
  const int flags = ::fcntl(handle, F_GETFL);
  ::fcntl(handle, F_SETFL, flags | O_NONBLOCK);
  if (::connect(handle, to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return false;
    pollfd watched{handle, POLLOUT, 0};
    int error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (::poll(&watched, 1, milliseconds) > 0)
      ::getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    if (error != 0) return false;
  }
  ::fcntl(handle, F_SETFL, flags);
  set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle, SOL_SOCKET, SO_KEEPALIVE, 1);
  return true;
}

constexpr size_t kLongest = size_t{16} << 20;  // bytes of a message
constexpr size_t kHeader = 9;                  // length, kind, rank

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Socket::close() {
  if (handle_ >= 0) ::close(std::exchange(handle_, -1));
}

Socket Socket::listen(const std::string& address, int port) {
  std::string last = "no address fits";
  if (address.empty()) {
    Socket everywhere(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{};  // of both families
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(port));
    set_option(everywhere.handle_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (everywhere.valid() &&
        ::bind(everywhere.handle_, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 &&
        ::listen(everywhere.handle_, 4096) == 0)
      return everywhere;
    return listen("0.0.0.0", port);
  }
  const Addresses found = resolve(address, port);
  for (const addrinfo* at = found.get(); at; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (!socket.valid()) continue;
    set_option(socket.handle_, SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket.handle_, at->ai_addr, at->ai_addrlen) == 0 &&
        ::listen(socket.handle_, 4096) == 0)
      return socket;
    last = std::strerror(errno);
  }
  fail("cannot listen on ", address, " port ", port, ": ", last,
       ". Another job may use it; TENSORA_MASTER=ADDRESS:PORT chooses another one");
}

Socket Socket::connect(const std::string& addresses, int port, double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::string last;
  do {
    std::istringstream list(addresses);
    for (std::string address; std::getline(list, address, ',');) {
      Addresses found;
      try {
        found = resolve(address, port);
      } catch (const Error& error) {
        if (address == addresses) throw;
        last = error.what();
      }
      for (const addrinfo* at = found.get(); at; at = at->ai_next) {
        Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
        if (socket.valid() && connect_within(socket.handle_, *at, 2000)) return socket;
        last = std::strerror(errno);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < until);
  fail("rank 0 could not be reached at ", addresses, " port ", port, " within ", seconds,
       " s: ", last);
}

Socket Socket::accept() const {
  Socket accepted(::accept4(handle_, nullptr, nullptr, SOCK_CLOEXEC));
  if (accepted.valid()) {
    set_option(accepted.handle_, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(accepted.handle_, SOL_SOCKET, SO_KEEPALIVE, 1);
  }
  return accepted;
}

int Socket::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(handle_, reinterpret_cast<sockaddr*>(&address), &length);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool Socket::send_all(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool Socket::receive_some(std::string& to) const {
  char buffer[4096];
  ssize_t got;
  do got = ::recv(handle_, buffer, sizeof buffer, 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  to.append(buffer, static_cast<size_t>(got));
  return true;
}

bool Socket::readable(int milliseconds) const {
  pollfd watched{handle_, POLLIN, 0};
  return ::poll(&watched, 1, milliseconds) > 0;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string host_addresses() {
  std::string all = host_name();
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_LOOPBACK) ||
        !(at->ifa_flags & IFF_UP))
      continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto* const address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text)) append(all, concat(",", text));
  }
  ::freeifaddrs(list);
  return all;
}

std::string encode(const Message& message) {
  ensure(message.text.size() <= kLongest, "a control message of ", message.text.size(), " bytes");
  std::string bytes(kHeader, '\0');
  const uint32_t length = static_cast<uint32_t>(message.text.size());
  std::memcpy(bytes.data(), &length, 4);
  bytes[4] = static_cast<char>(message.kind);
  std::memcpy(bytes.data() + 5, &message.rank, 4);
  return bytes + message.text;
}

bool decode(std::string& bytes, Message& message) {
  if (bytes.size() < kHeader) return false;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data(), 4);
  check(length <= kLongest &&
            static_cast<uint8_t>(bytes[4]) <= static_cast<uint8_t>(MessageKind::bye),
        "the control channel received something else than a message");
  if (bytes.size() < kHeader + length) return false;
  message.kind = static_cast<MessageKind>(bytes[4]);
  std::memcpy(&message.rank, bytes.data() + 5, 4);
  message.text = bytes.substr(kHeader, length);
  bytes.erase(0, kHeader + length);
  return true;
}

}  // namespace tensora::distributed
