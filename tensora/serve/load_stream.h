#pragma once

#include <memory>

#include "tensora/serve/load_reader.h"
#include "tensora/serve/load_requests.h"

namespace tensora::serve {

/// Seconds of a clock that never goes back.
double steady_seconds();
/// A connection to the plan's server that does not wait.
class LoadConnection {
 public:
  LoadConnection() = default;
  LoadConnection(const LoadConnection&) = delete;
  LoadConnection& operator=(const LoadConnection&) = delete;
  ~LoadConnection() { close(); }

  /// Throws Error where that is impossible. `receive_buffer`: 0 for the system's.
  void open(const LoadPlan& plan, int receive_buffer = 0);
  void close();
  bool is_open() const { return socket_ >= 0; }
  int descriptor() const { return socket_; }
  Channel& channel() { return *channel_; }

 private:
  int socket_ = -1;
  std::unique_ptr<Channel> channel_;
};

/// A connection that sends one request after another and follows the answers. It waits for nothing:
/// the owner calls it when the socket is ready.
class LoadStream {
 public:
  LoadStream(const LoadPlan& plan, double began) : plan_(plan), began_(began) {}
  LoadStream(const LoadStream&) = delete;
  LoadStream& operator=(const LoadStream&) = delete;

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

  int descriptor() const { return connection_.descriptor(); }
  int64_t connection() const { return connections_; }  // which one, counted from 1
  bool is_busy() const { return record_ != nullptr; }
  bool wants_to_write() const { return is_sending() && !waits_for_handshake_; }
  bool wants_to_read() const {
    return is_busy() && (made_.manner != Manner::slow || waits_for_handshake_);
  }
  Manner manner() const { return made_.manner; }
  double began_at() const { return record_->begin; }

 private:
  bool is_sending() const { return is_busy() && sent_ < made_.bytes.size(); }
  void write();
  void read(size_t most);
  void take(std::string_view bytes);
  void on_event(std::string_view data, double now);
  void finish();
  void open(int receive_buffer);
  void on_closed();
  bool retry();
  std::string problem();

  const LoadPlan& plan_;
  double began_;
  LoadConnection connection_;
  int64_t connections_ = 0;
  RequestMaker::Made made_;
  RequestRecord* record_ = nullptr;
  size_t sent_ = 0;
  bool is_reused_ = false;
  bool waits_for_handshake_ = false;  // TLS has to read before it can write
  bool is_streamed_ = false;          // the answer came to "[DONE]"
  ResponseReader response_;
  EventReader events_;
  std::string error_body_;
};

}  // namespace tensora::serve
