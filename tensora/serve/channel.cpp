#include "tensora/serve/channel.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>

#include "tensora/base/check.h"

#ifdef TENSORA_HAS_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

namespace tensora::serve {
namespace {

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(int socket) : socket_(socket) {}

  Result read(char* to, size_t size) override {
    return result_of(::recv(socket_, to, size, 0), Wait::readable, /*is_read=*/true);
  }
  Result write(std::string_view bytes) override {
    return result_of(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), Wait::writable,
                     /*is_read=*/false);
  }
  void finish() override { ::shutdown(socket_, SHUT_WR); }

 private:
  static Result result_of(ssize_t count, Wait wait, bool is_read) {
    if (count > 0) return {.bytes = static_cast<size_t>(count)};
    if (count == 0) return {.is_closed = is_read};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {.wait = wait};
    if (errno == EINTR) return {};
    return {.is_closed = true};
  }

  int socket_;
};

#ifdef TENSORA_HAS_TLS

std::string last_tls_error() {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_get_error()) ERR_error_string_n(code, text, sizeof(text));
  ERR_clear_error();
  return text;
}

class TlsChannel final : public Channel {
 public:
  TlsChannel(SSL_CTX* context, int socket) : ssl_(SSL_new(context)), socket_(socket) {
    check(ssl_ && SSL_set_fd(ssl_, socket) == 1, "TLS: ", last_tls_error());
    SSL_set_accept_state(ssl_);
  }
  /// A client's.
  TlsChannel(SSL_CTX* context, int socket, const std::string& host) : TlsChannel(context, socket) {
    SSL_set_connect_state(ssl_);
    unsigned char address[16];
    const bool is_address = inet_pton(AF_INET, host.c_str(), address) == 1 ||
                            inet_pton(AF_INET6, host.c_str(), address) == 1;
    const bool is_set =
        is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str()) == 1
                   : SSL_set1_host(ssl_, host.c_str()) == 1 &&
                         SSL_ctrl(ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                  const_cast<char*>(host.c_str())) == 1;
    check(is_set, "TLS: '", host, "' cannot be the name of a server");
  }
  ~TlsChannel() override { SSL_free(ssl_); }
  TlsChannel(const TlsChannel&) = delete;
  TlsChannel& operator=(const TlsChannel&) = delete;

  Result read(char* to, size_t size) override {
    size_t count = 0;
    ERR_clear_error();
    const int done = SSL_read_ex(ssl_, to, size, &count);
    return result_of(done, count);
  }
  Result write(std::string_view bytes) override {
    size_t count = 0;
    ERR_clear_error();
    const int done = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &count);
    return result_of(done, count);
  }
  void finish() override {
    if (!is_broken_) SSL_shutdown(ssl_);
    ERR_clear_error();
    ::shutdown(socket_, SHUT_WR);
  }
  std::string problem() const override { return problem_; }

 private:
  Result result_of(int done, size_t count) {
    if (done == 1) return {.bytes = count};
    switch (SSL_get_error(ssl_, done)) {
      case SSL_ERROR_WANT_READ:
        return {.wait = Wait::readable};
      case SSL_ERROR_WANT_WRITE:
        return {.wait = Wait::writable};
      case SSL_ERROR_ZERO_RETURN:
        return {.is_closed = true};
      case SSL_ERROR_SSL:
        problem_ = concat("TLS: ", tls_problem());
        [[fallthrough]];
      default:
        is_broken_ = true;
        return {.is_closed = true};
    }
  }

  std::string tls_problem() const {
    const long verdict = SSL_get_verify_result(ssl_);
    return verdict == X509_V_OK ? last_tls_error() : X509_verify_cert_error_string(verdict);
  }

  SSL* ssl_;
  int socket_;
  std::string problem_;
  bool is_broken_ = false;
};

#endif

}  // namespace

std::unique_ptr<Channel> plain_channel(int socket) {
  return std::make_unique<PlainChannel>(socket);
}

#ifdef TENSORA_HAS_TLS

TlsContext::TlsContext(const std::string& certificate, const std::string& key) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  check(context != nullptr, "TLS: ", last_tls_error());
  context_ = context;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // The bytes of a write may have moved when it is tried again; idle sessions hold no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  const auto demand = [&](bool is_good, const std::string& what) {
    if (is_good) return;
    const std::string reason = last_tls_error();
    SSL_CTX_free(context);
    fail("TLS: ", what, " (", reason, ")");
  };
  demand(SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) == 1,
         concat("the certificate '", certificate, "' cannot be used"));
  demand(SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1,
         concat("the key '", key, "' cannot be used"));
  demand(SSL_CTX_check_private_key(context) == 1,
         concat("the key '", key, "' is not that of the certificate '", certificate, "'"));
}

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

std::unique_ptr<Channel> TlsContext::channel(int socket) const {
  return std::make_unique<TlsChannel>(static_cast<SSL_CTX*>(context_), socket);
}

TlsClient::TlsClient(const Options& options) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  check(context != nullptr, "TLS: ", last_tls_error());
  context_ = context;
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  if (!options.verifies) return;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  const std::string& file = options.authorities;
  const bool is_good = file.empty()
                           ? SSL_CTX_set_default_verify_paths(context) == 1
                           : SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) == 1;
  if (is_good) return;
  const std::string reason = last_tls_error();
  SSL_CTX_free(context);
  fail("TLS: the certificates in '", file, "' cannot be used (", reason, ")");
}

TlsClient::~TlsClient() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

std::unique_ptr<Channel> TlsClient::channel(int socket, const std::string& host) const {
  return std::make_unique<TlsChannel>(static_cast<SSL_CTX*>(context_), socket, host);
}

#else

TlsClient::TlsClient(const Options&) {
  fail("TLS: this build has no OpenSSL; build it again where libssl-dev is installed");
}
TlsClient::~TlsClient() = default;
std::unique_ptr<Channel> TlsClient::channel(int socket, const std::string&) const {
  return context_ ? nullptr : plain_channel(socket);
}

TlsContext::TlsContext(const std::string&, const std::string&) {
  fail("TLS: this build has no OpenSSL; build it again where libssl-dev is installed");
}
TlsContext::~TlsContext() = default;
std::unique_ptr<Channel> TlsContext::channel(int socket) const {
  return context_ ? nullptr : plain_channel(socket);
}

#endif

}  // namespace tensora::serve
