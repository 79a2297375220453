#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensora/distributed/recorder.h"
#include "tensora/distributed/socket.h"
#include "tensora/distributed/transport.h"

namespace tensora::distributed {

/// How the ranks of a job find each other.
struct MeetingPoint {
  std::string address = "127.0.0.1";  // of rank 0
  int port = 0;
  std::string token;  // what every rank must know
};

/// Rank 0's side of the control channel: keeps what ranks tell each other, notices who is gone, and
/// tells all.
class ControlServer {
 public:
  /// Takes over a listening socket.
  ControlServer(Socket listener, int ranks, std::string token);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Socket socket;
    std::string received;
    int rank = -1;  // before its hello
    bool left = false;
  };
  struct RankInfo {
    bool known = false;
    std::string place;  // host and process
    std::string last_call;
    Clock::time_point heard;
    bool warned = false;
  };

  void serve();
  void read(Peer& peer);
  void handle(Peer& peer, const Message& message);
  void greet(Peer& peer, const Message& message);
  void lose(Peer& peer);
  void tell_failure(const Message& message);
  void tell_all(const Message& message, int except);
  void warn_slow(const Message& message);
  void look_for_silence();

  Socket listener_;
  const int ranks_;
  const std::string token_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<RankInfo> infos_;
  std::map<std::string, std::string> values_;
  std::multimap<std::string, int> waiting_;  // key, rank
  Clock::time_point last_warning_;
  std::optional<Message> failure_;  // the first
  std::atomic<int64_t> connected_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// Every rank's connection to rank 0: meeting, heartbeats, the first failure. Collectives do not
/// use it.
class Control {
 public:
  /// Rank 0 also listens; port 0 takes a free one there.
  Control(const MeetingPoint& place, int rank, int ranks, std::shared_ptr<Failure> failure,
          std::shared_ptr<Recorder> recorder, double seconds, Socket listener = {});
  /// Leaves: a rank that ends in order does not fail the others.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Says goodbye.
  void leave();
  void put(const std::string& key, const std::string& value);
  /// Waits until some rank has put it. Throws if a rank fails, or after `seconds`.
  std::string get(const std::string& key, double seconds);
  /// All ranks of `members` come; throws after `seconds`.
  void meet(const std::string& name, size_t members, size_t place, double seconds);
  /// The end of that process is a failure: for ranks that the system does not end with it.
  void watch_launcher(int process) { launcher_ = process; }
  bool has_left(int rank) const;
  /// Whether all ranks have left, or this one cannot hear of them any more.
  bool all_left() const;
  /// Tells all ranks of an error of this one, or about another.
  void tell_failure(const std::exception_ptr& error);
  void tell_slow(const std::string& text, const std::vector<int>& missing);

 private:
  Message await_answer(const std::string& server, double seconds);
  void listen();
  void look_for_launcher();
  void handle(const Message& message);
  void send(const Message& message);

  const int rank_, ranks_;
  std::shared_ptr<Failure> failure_;
  std::shared_ptr<Recorder> recorder_;
  std::unique_ptr<ControlServer> server_;
  Socket socket_;
  std::string received_;  // behind the last message
  std::mutex sending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::unique_ptr<std::atomic<bool>[]> left_;
  std::atomic<bool> said_goodbye_ = false;
  std::atomic<bool> closed_ = false;  // the connection
  std::atomic<int> launcher_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

/// An error as a message, and back: the same class with the same text on every rank.
std::string encode_error(const std::exception_ptr& error, int rank);
std::exception_ptr decode_error(int rank, const std::string& text);

}  // namespace tensora::distributed
