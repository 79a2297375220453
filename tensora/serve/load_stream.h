#pragma once

#include <memory>

#include "tensora/serve/load_reader.h"
#include "tensora/serve/load_requests.h"

namespace tensora::serve {

/// Seconds of a clock that never goes back.
double steady_seconds();
/// A socket that does not wait, on its way to the plan's server; throws Error where that is
/// impossible. `receive_buffer`: 0 for the system's.
int open_connection(const LoadPlan& plan, int receive_buffer);

/// A connection that sends one request after another and follows the answers. It waits for nothing:
/// the owner calls it when the socket is ready.
class LoadStream {
 public:
  LoadStream(const LoadPlan& plan, double began) : plan_(plan), began_(began) {}
  LoadStream(const LoadStream&) = delete;
  LoadStream& operator=(const LoadStream&) = delete;
  ~LoadStream() { close(); }

  /// Sends a request; what becomes of it goes to `record`. Opens a connection unless the last one
  /// can be used again.
  void begin(RequestMaker::Made made, RequestRecord& record);
  /// Something happened at the socket.
  void on_ready(bool readable, bool broken);
  /// A slow reader's turn.
  void read_slowly();
  void fail(const std::string& why);
  /// Ends what goes on without a judgement on the server.
  void leave(bool resets);

  int descriptor() const { return socket_; }
  int64_t connection() const { return connections_; }  // which one, counted from 1
  bool is_busy() const { return record_ != nullptr; }
  bool wants_to_write() const { return is_busy() && sent_ < made_.bytes.size(); }
  bool wants_to_read() const { return is_busy() && made_.manner != Manner::slow; }
  Manner manner() const { return made_.manner; }
  double began_at() const { return record_->begin; }

 private:
  void write();
  void read(size_t most);
  void on_event(std::string_view data, double now);
  void finish();
  void close();
  void open(int receive_buffer);
  void on_closed();
  bool retry();

  const LoadPlan& plan_;
  double began_;
  int socket_ = -1;
  int64_t connections_ = 0;
  RequestMaker::Made made_;
  RequestRecord* record_ = nullptr;
  size_t sent_ = 0;
  bool is_reused_ = false;
  bool is_streamed_ = false;  // the answer came to "[DONE]"
  ResponseReader response_;
  EventReader events_;
  std::string error_body_;
};

}  // namespace tensora::serve
