#include "tensora/serve/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <thread>

#include "tensora/base/check.h"
#include "tensora/serve/http_connection.h"
#include "tensora/serve/own_thread.h"

namespace tensora::serve {
namespace {

namespace asio = boost::asio;

// Before others get their turn: with 1,000 streams, a step of the engine makes so many writes that
// one who asks for /health would wait for 10 ms or, on a busy machine, 50.
constexpr int kMostAccepts = 64, kMostFlushes = 32;
constexpr size_t kMostTurnedAway = 256;  // beyond the limit, connections are closed without a word

// An I/O thread with its connections.
struct Loop {
  ConnectionHome home;
  asio::executor_work_guard<asio::io_context::executor_type> work{home.context.get_executor()};
  asio::steady_timer sweep{home.context};
  std::thread thread;
};

struct AddressList {
  explicit AddressList(const HttpServerOptions& options) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    const int error =
        getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &first);
    check(error == 0, "serve: the address '", options.host,
          "' is not known: ", gai_strerror(error));
  }
  ~AddressList() { freeaddrinfo(first); }
  AddressList(const AddressList&) = delete;
  AddressList& operator=(const AddressList&) = delete;
  addrinfo* first = nullptr;
};

int listen_on(const HttpServerOptions& options) {
  const AddressList addresses(options);
  int error = 0;
  for (const addrinfo* one = addresses.first; one; one = one->ai_next) {
    const int socket = ::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) {
      error = errno;
      continue;
    }
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(socket, one->ai_addr, one->ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0)
      return socket;
    error = errno;
    ::close(socket);
  }
  fail("serve: cannot listen on ", options.host, " port ", options.port, ": ",
       std::strerror(error));
}

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof(text));
  else
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
              sizeof(text));
  return text;
}

// A connection is a file descriptor; the usual limit of 1,024 is below what a server is asked for.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct HttpServer::State {
  State(const HttpServerOptions& given, HttpHandler& given_handler)
      : options(given), handler(given_handler) {
    check(options.threads >= 1 && options.threads <= 64,
          "serve: expected 1 to 64 I/O threads, got ", options.threads);
    check(options.tls_certificate.empty() == options.tls_key.empty(),
          "serve: a certificate and a key belong together");
    if (!options.tls_key.empty())
      tls = std::make_unique<TlsContext>(options.tls_certificate, options.tls_key);
    raise_descriptor_limit();
    const int socket = listen_on(options);
    // The first one receives; see Note [The receiving thread]. Handshakes of TLS take long: there
    // the others begin with their connections themselves.
    for (int i = 0; i <= options.threads; ++i) add_loop();
    if (!tls) loops[0]->home.next_home = [this]() -> ConnectionHome& { return next_home(); };
    acceptor = std::make_unique<asio::posix::stream_descriptor>(loops[0]->home.context, socket);
    retry = std::make_unique<asio::steady_timer>(loops[0]->home.context);
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
    port = ntohs(bound.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(bound).sin_port
                                            : reinterpret_cast<sockaddr_in6&>(bound).sin6_port);
    asio::post(loops[0]->home.context, [this] { accept_all(); });
    for (const auto& loop : loops) {
      schedule_sweep(*loop);
      const char* const name = loop == loops[0] ? "serve-receive" : "serve-io";
      loop->thread = std::thread([home = &loop->home, name] {
        begin_own_thread(name);  // a write of TLS to a closed socket raises no SIGPIPE then
        take_short_slices();     // /health answers although the engine keeps all cores busy
        home->context.run();
      });
    }
  }

  ~State() {
    for (const auto& loop : loops) {
      loop->home.outlet->close();
      asio::post(loop->home.context, [this, loop = loop.get()] {
        if (loop == loops[0].get()) close_acceptor();
        loop->sweep.cancel();
        loop->home.is_closing = true;
        const auto open = loop->home.connections;
        for (const auto& [raw, connection] : open) connection->close();
        loop->work.reset();
      });
    }
    for (const auto& loop : loops) loop->thread.join();
  }

  void add_loop() {
    auto loop = std::make_unique<Loop>();
    ConnectionHome& home = loop->home;
    home.options = &options;
    home.handler = &handler;
    home.open = &open;
    home.active = &active;
    home.body_bytes = &body_bytes;
    home.outlet = std::make_shared<Outlet>([&home] {
      asio::post(home.context, [&home] {
        const bool is_flushing = !home.to_flush.empty();
        for (auto& reply : home.outlet->take()) home.to_flush.push_back(std::move(reply));
        if (!is_flushing) flush_some(home);
      });
    });
    loops.push_back(std::move(loop));
  }

  static void flush_some(ConnectionHome& home) {
    for (int i = 0; i < kMostFlushes && !home.to_flush.empty(); ++i) {
      const std::shared_ptr<ReplyState> reply = std::move(home.to_flush.front());
      home.to_flush.pop_front();
      if (reply->connection) reply->connection->flush();
    }
    if (!home.to_flush.empty()) asio::post(home.context, [&home] { flush_some(home); });
  }

  void schedule_sweep(Loop& loop) {
    const double least = std::min({options.header_seconds, options.body_seconds,
                                   options.idle_seconds, options.stalled_seconds});
    const auto pause = std::chrono::duration<double>(std::clamp(least / 4, 0.01, 0.5));
    loop.sweep.expires_after(std::chrono::duration_cast<Clock::duration>(pause));
    loop.sweep.async_wait([this, &loop](const auto& error) {
      if (error || loop.home.is_closing) return;
      const auto now = Clock::now();
      const auto open = loop.home.connections;
      for (const auto& [raw, connection] : open) connection->check_time(now);
      schedule_sweep(loop);
    });
  }

  void accept_all() {
    if (!acceptor->is_open()) return;
    for (int i = 0; i < kMostAccepts; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof(address);
      const int socket = accept4(acceptor->native_handle(), reinterpret_cast<sockaddr*>(&address),
                                 &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket >= 0) {
        take_in(socket, text_of(address));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return wait_for_clients();
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // Trying again at once would keep the thread busy with failing.
        retry->expires_after(std::chrono::milliseconds(100));
        retry->async_wait([this](const auto& error) {
          if (!error) accept_all();
        });
        return;
      }
    }
    asio::post(loops[0]->home.context, [this] { accept_all(); });
  }

  void wait_for_clients() {
    acceptor->async_wait(acceptor->wait_read, [this](const auto& error) {
      if (!error) accept_all();
    });
  }

  // Where answers are sent from. On the receiving thread.
  ConnectionHome& next_home() { return loops[1 + next++ % (loops.size() - 1)]->home; }

  void take_in(int socket, std::string address) {
    const size_t count = open;
    if (count >= options.max_connections + kMostTurnedAway) {
      ::close(socket);
      return;
    }
    const bool is_too_many = count >= options.max_connections;
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    ConnectionHome& home = tls ? next_home() : loops[0]->home;
    auto connection = std::make_shared<Connection>(
        home, socket, tls ? tls->channel(socket) : plain_channel(socket), std::move(address));
    const auto begin = [connection, is_too_many] {
      is_too_many ? connection->turn_away() : connection->start();
    };
    if (&home == &loops[0]->home)
      begin();
    else
      asio::post(home.context, begin);
  }

  void close_acceptor() {
    boost::system::error_code ignored;
    acceptor->close(ignored);
    retry->cancel();
  }

  const HttpServerOptions options;
  HttpHandler& handler;
  std::unique_ptr<TlsContext> tls;
  std::atomic<size_t> open = 0, active = 0, body_bytes = 0;
  std::vector<std::unique_ptr<Loop>> loops;
  std::unique_ptr<asio::posix::stream_descriptor> acceptor;
  std::unique_ptr<asio::steady_timer> retry;
  size_t next = 0;  // of the homes
  int port = 0;
};

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler& handler)
    : state_(std::make_unique<State>(options, handler)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return state_->port; }

void HttpServer::stop_listening() {
  for (const auto& loop : state_->loops) loop->home.outlet->is_draining = true;
  asio::post(state_->loops[0]->home.context, [state = state_.get()] { state->close_acceptor(); });
}

bool HttpServer::wait_until_idle(double seconds) const {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (state_->active > 0) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

size_t HttpServer::connections() const { return state_->open; }

size_t HttpServer::active() const { return state_->active; }

}  // namespace tensora::serve
