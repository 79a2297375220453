#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "tensora/serve/http.h"
#include "tensora/serve/router.h"

namespace tensora::serve {

struct StreamStoreOptions {
  size_t max_streams = 0;              // kept at once; 0: the store is off
  size_t max_stream_bytes = 4u << 20;  // the last bytes of each are kept
  /// Seconds for which an answer is computed without a client, and for which it is kept after its
  /// end.
  double retention = 300;
};

/// Keeps answers whose clients sent the header x-conversation-id, so that a client that lost its
/// connection can go on reading: the answer does not end with the connection. Streams belong to
/// the key that asked, and nobody can list them. All functions may be called from any thread.
class StreamStore {
 public:
  explicit StreamStore(const StreamStoreOptions& options);
  ~StreamStore();
  StreamStore(const StreamStore&) = delete;
  StreamStore& operator=(const StreamStore&) = delete;

  /// A reply that writes to the client and keeps what it has written. Throws ApiError: 400 for a
  /// name that is not 1 to 128 letters, digits, '-', '_', '.' or ':'; 409 while another answer has
  /// the name; 429 where no more can be kept.
  ReplyPtr keep(const std::string& key, std::string_view id, ReplyPtr client);
  /// Sends a client the body of an answer from a byte on, to its end. A client that still reads it
  /// is cut off. Throws ApiError: 404, 410 (the byte is not kept any more), 416 (it has not been
  /// written yet).
  void resume(const std::string& key, const std::string& id, uint64_t from, const ReplyPtr& client);
  /// Ends the answers that it keeps; no more may be added.
  void close();
  /// Ends the answer and forgets it. Throws ApiError 404.
  void remove(const std::string& key, const std::string& id);

 private:
  class Stream;
  class StreamReply;
  using Name = std::pair<std::string, std::string>;  // key and id

  std::shared_ptr<Stream> find(const Name& name);
  void run();

  const StreamStoreOptions options_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<Name, std::shared_ptr<Stream>> streams_;
  bool is_any_behind_ = false;  // of the clients that read on
  bool is_closing_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

/// GET /v1/streams/{id}?from=BYTE and DELETE /v1/streams/{id}. The store must outlive the routes.
void add_stream_routes(Router& router, StreamStore& streams);

}  // namespace tensora::serve
