#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tensora::serve {

/// Takes an HTTP response apart as it comes: lengths, chunks, or until the connection closes.
class ResponseReader {
 public:
  using Body = std::function<void(std::string_view part)>;

  /// Returns false for what is not HTTP.
  bool push(std::string_view bytes, const Body& body);
  /// The connection has closed; returns whether the response is whole.
  bool close();

  int status() const { return status_; }
  bool is_whole() const { return step_ == Step::whole; }
  bool keeps_alive() const { return keeps_alive_; }

 private:
  enum class Step : uint8_t { head, length, size_line, chunk, chunk_end, trailer, rest, whole };
  bool take_head();
  bool take_size_line(std::string_view& bytes);
  bool take_line(std::string_view& bytes);

  Step step_ = Step::head;
  std::string line_;  // the head, or a line of the chunked coding, as far as it has come
  int64_t left_ = 0;
  int status_ = 0;
  bool keeps_alive_ = true;
};

/// The data of server-sent events, as they come.
class EventReader {
 public:
  using Give = std::function<void(std::string_view data)>;
  void push(std::string_view bytes, const Give& give);

 private:
  std::string rest_;
};

/// Whether an event of /v1/completions or /v1/chat/completions brings text.
bool has_text(std::string_view event);

}  // namespace tensora::serve
