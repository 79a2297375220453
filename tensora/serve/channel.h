#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tensora::serve {

/// Bytes in and out of a connected socket, without waiting. The socket stays its owner's.
class Channel {
 public:
  /// What is missing to go on: the socket has to become readable or writable.
  enum class Wait : unsigned char { none, readable, writable };
  struct Result {
    size_t bytes = 0;
    Wait wait = Wait::none;
    bool is_closed = false;  // by the peer, or broken
  };
  virtual ~Channel() = default;
  virtual Result read(char* to, size_t size) = 0;
  virtual Result write(std::string_view bytes) = 0;
  /// No more bytes will be written; the peer reads an end.
  virtual void finish() = 0;
  /// Why it was closed, where the channel knows; empty otherwise.
  virtual std::string problem() const { return {}; }
};

std::unique_ptr<Channel> plain_channel(int socket);

/// The certificate and the key of a server that speaks TLS 1.2 or newer.
class TlsContext {
 public:
  /// PEM files; the certificate may be followed by the chain. Throws Error for files that cannot be
  /// used, and where the server was built without OpenSSL.
  TlsContext(const std::string& certificate, const std::string& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// The handshake takes place while it is read from.
  std::unique_ptr<Channel> channel(int socket) const;

 private:
  void* context_ = nullptr;  // SSL_CTX
};

/// The client's side of TLS 1.2 or newer.
class TlsClient {
 public:
  struct Options {
    bool verifies = true;          // that the server's certificate is valid and has its name
    std::string authorities = {};  // PEM file with the certificates that are trusted; the system's
  };
  /// Throws Error for a file that cannot be used, and where this was built without OpenSSL.
  explicit TlsClient(const Options& options);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  /// `host` is the server's name or address. The handshake takes place while it is written to.
  std::unique_ptr<Channel> channel(int socket, const std::string& host) const;

 private:
  void* context_ = nullptr;  // SSL_CTX
};

}  // namespace tensora::serve
