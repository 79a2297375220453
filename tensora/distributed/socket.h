#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensora::distributed {

/// A TCP socket; closes with the object. Errors are tensora::Error with the address in their text.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  Socket(Socket&& other) noexcept : handle_(other.handle_) { other.handle_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// Listens on an address of this machine, or on all of them if it is empty; port 0 takes a free
  /// one.
  static Socket listen(const std::string& address, int port);
  /// Tries for as long as `seconds`: the listener may not have started yet. `addresses` of one
  /// machine have commas between them and are tried in turn.
  static Socket connect(const std::string& addresses, int port, double seconds);
  /// An invalid socket if nobody is waiting.
  Socket accept() const;

  bool valid() const { return handle_ >= 0; }
  int handle() const { return handle_; }
  int port() const;
  void close();
  /// False if the other side is gone.
  bool send_all(std::string_view bytes) const;
  /// Appends what has come to `to`; false at the end of the stream.
  bool receive_some(std::string& to) const;
  /// Whether there is something to receive, or the end, within `milliseconds`.
  bool readable(int milliseconds) const;

 private:
  int handle_ = -1;
};

/// The name of this machine.
std::string host_name();
/// That name, and the addresses of its network interfaces but loopback, with commas between them.
std::string host_addresses();

/// What the control channel carries.
enum class MessageKind : uint8_t {
  hello,      // a rank: token, host and process
  welcome,    // to a rank: it is accepted; the text is a refusal if it is not empty
  put,        // key, 0, value
  get,        // key
  value,      // key, 0, value
  heartbeat,  // the rank's last call
  slow,       // a warning, with the ranks that are missing
  failed,     // a rank's failure: the kind of error, then its text
  bye,        // the rank ends in order
};

struct Message {
  MessageKind kind = MessageKind::heartbeat;
  int32_t rank = 0;  // the rank that it is about
  std::string text;
};
std::string encode(const Message& message);
/// Takes the first whole message out of `bytes`; false if there is none. Throws where a length is
/// out of bounds.
bool decode(std::string& bytes, Message& message);

}  // namespace tensora::distributed
