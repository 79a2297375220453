#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensora::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// A request as a client sent it, whole.
struct HttpRequest {
  std::string method = {};  // GET, POST, ...
  std::string path = {};    // without the query; percent-encoding removed
  std::string query = {};   // what follows '?', as it came
  Headers headers = {};     // names in lower case, values as they came
  std::string body = {};
  std::string id = {};  // of this request in logs and in x-request-id: the client's, or a fresh one
  std::string address = {};  // of the client

  /// The value of a header, by its name in lower case; empty: there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers = {};
  std::string body = {};
};

/// The way back to one client: either `send`, or `begin`, any number of `write`, and `end`. All
/// functions may be called from any thread and return at once; when the client is gone they do
/// nothing. Dropped without an answer, the client gets "internal error".
class Reply {
 public:
  Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  virtual ~Reply() = default;

  /// The whole answer.
  virtual void send(HttpResponse response) = 0;
  /// The head of an answer in parts, without a length; its body is the first part.
  virtual void begin(HttpResponse head) = 0;
  /// Parts that come while the socket is behind are sent together.
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;

  /// Bytes written that the socket has not taken yet.
  virtual size_t unsent() const = 0;
  virtual bool is_gone() const = 0;
  /// Called once, on the I/O thread, when the client closes the connection before the end; at once
  /// if it has. It must return quickly.
  virtual void on_gone(std::function<void()> callback) = 0;
};
using ReplyPtr = std::shared_ptr<Reply>;

/// While one of these exists, what this thread writes to replies is handed to the threads that send
/// it when there is much of it, and at the end: not each reply on its own.
class WriteBatch {
 public:
  WriteBatch();
  ~WriteBatch();
  WriteBatch(const WriteBatch&) = delete;
  WriteBatch& operator=(const WriteBatch&) = delete;
};

}  // namespace tensora::serve
