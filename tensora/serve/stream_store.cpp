#include "tensora/serve/stream_store.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <optional>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/serve/api_error.h"
#include "tensora/serve/own_thread.h"

namespace tensora::serve {
namespace {

using Clock = std::chrono::steady_clock;

// A client that reads on gets the bytes that are kept in parts, as it takes them: many that ask for
// megabytes and do not read cost no more than other slow clients.
constexpr size_t kMostAhead = 256 << 10, kPart = 64 << 10;
// How often one that is behind is looked at.
constexpr std::chrono::milliseconds kLook(10);

bool is_name(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:").find(c) != std::string_view::npos;
  });
}

}  // namespace

/// An answer between the service, which writes it, and the clients that read it one after another.
class StreamStore::Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(size_t most) : most_(most) {}

  // For the service.
  void send(HttpResponse response) {
    ReplyPtr client;
    const std::lock_guard lock(mutex_);
    if (head_) return;
    if (client_) client_->send(response);
    is_whole_ = has_ended_ = true;
    add(response.body);
    response.body.clear();
    head_ = std::move(response);
    gone_ = nullptr;
    since_ = Clock::now();
    client.swap(client_);
  }
  void begin(HttpResponse head) {
    const std::lock_guard lock(mutex_);
    if (head_) return;
    if (client_) client_->begin(head);
    add(head.body);
    at_ = end_of_bytes();
    head.body.clear();
    head_ = std::move(head);
  }
  void write(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    const bool is_behind = at_ < end_of_bytes();
    add(bytes);
    if (is_behind || !client_) return;
    at_ = end_of_bytes();
    client_->write(bytes);
  }
  void end(bool is_broken) {
    ReplyPtr client;
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    is_broken_ = is_broken;
    has_ended_ = true;
    gone_ = nullptr;
    since_ = Clock::now();
    client = fed();
  }
  size_t unsent() const {
    const std::lock_guard lock(mutex_);
    return client_ ? client_->unsent() + static_cast<size_t>(end_of_bytes() - at_) : 0;
  }
  bool is_gone() const { return is_cancelled_; }
  void on_gone(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_cancelled_) {
        if (!has_ended_) gone_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  // For the store.
  void attach(const ReplyPtr& client, uint64_t from) {
    ReplyPtr before, done;
    {
      const std::lock_guard lock(mutex_);
      if (from < dropped_)
        throw ApiError(410, concat("the answer is kept from byte ", dropped_, " on"), "from",
                       "stream_truncated");
      if (from > end_of_bytes())
        throw ApiError(416, concat("the answer has ", end_of_bytes(), " bytes so far"), "from");
      before.swap(client_);
      since_ = Clock::now();
      client_ = client;
      at_ = from;
      if (head_) done = begin_again();
    }
    client->on_gone([stream = weak_from_this(), gone = client.get()] {
      if (const auto left = stream.lock()) left->detach(gone);
    });
  }
  /// Goes on with what a client is behind. Whether it still is.
  bool feed() {
    ReplyPtr done;
    const std::lock_guard lock(mutex_);
    done = fed();
    return client_ && at_ < end_of_bytes();
  }
  /// Ends the answer.
  void cancel() {
    ReplyPtr client;
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      is_cancelled_ = true;
      callback.swap(gone_);
      client.swap(client_);
    }
    if (callback) callback();
  }
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }
  /// How long nobody has read or written it.
  double idle_seconds() const {
    const std::lock_guard lock(mutex_);
    if (client_) return 0;
    return std::chrono::duration<double>(Clock::now() - since_).count();
  }

 private:
  void detach(const Reply* gone) {
    ReplyPtr client;
    const std::lock_guard lock(mutex_);
    if (client_.get() != gone) return;
    client.swap(client_);
    since_ = Clock::now();
  }
  // The lock must be held in what follows. What is returned is to be dropped without it: a client
  // that has all there will be, or that must see that its answer is not whole.
  ReplyPtr begin_again() {
    HttpResponse response = *head_;
    if (!is_whole_) {
      client_->begin(std::move(response));
      return fed();
    }
    response.body = bytes_.substr(at_ - dropped_);
    client_->send(std::move(response));
    return std::exchange(client_, nullptr);
  }
  ReplyPtr fed() {
    if (!client_ || !head_) return has_ended_ ? std::exchange(client_, nullptr) : nullptr;
    if (at_ < dropped_) return std::exchange(client_, nullptr);
    while (at_ < end_of_bytes() && client_->unsent() < kMostAhead) {
      const auto part = std::string_view(bytes_).substr(at_ - dropped_, kPart);
      at_ += part.size();
      client_->write(part);
    }
    if (at_ < end_of_bytes() || !has_ended_) return nullptr;
    since_ = Clock::now();
    if (!is_broken_) client_->end();
    return std::exchange(client_, nullptr);
  }
  uint64_t end_of_bytes() const { return dropped_ + bytes_.size(); }
  void add(std::string_view bytes) {
    bytes_ += bytes;
    if (bytes_.size() <= most_ + most_ / 4) return;
    const size_t extra = bytes_.size() - most_;
    bytes_.erase(0, extra);
    dropped_ += extra;
  }

  const size_t most_;
  mutable std::mutex mutex_;
  ReplyPtr client_;  // null: nobody reads it
  std::optional<HttpResponse> head_;
  std::string bytes_;     // of the body, behind
  uint64_t dropped_ = 0;  // so many
  uint64_t at_ = 0;       // the byte that the client gets next
  bool is_whole_ = false, has_ended_ = false, is_broken_ = false;
  std::atomic<bool> is_cancelled_ = false;
  std::function<void()> gone_;
  Clock::time_point since_ = Clock::now();
};

class StreamStore::StreamReply final : public Reply {
 public:
  explicit StreamReply(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~StreamReply() override { stream_->end(/*is_broken=*/true); }
  void send(HttpResponse response) override { stream_->send(std::move(response)); }
  void begin(HttpResponse head) override { stream_->begin(std::move(head)); }
  void write(std::string_view bytes) override { stream_->write(bytes); }
  void end() override { stream_->end(/*is_broken=*/false); }
  size_t unsent() const override { return stream_->unsent(); }
  bool is_gone() const override { return stream_->is_gone(); }
  void on_gone(std::function<void()> callback) override { stream_->on_gone(std::move(callback)); }

 private:
  std::shared_ptr<Stream> stream_;
};

StreamStore::StreamStore(const StreamStoreOptions& options) : options_(options) {
  check(options.retention > 0, "serve: expected to keep streams for more than 0 seconds, got ",
        options.retention);
  check(options.max_stream_bytes >= 1024, "serve: expected to keep at least 1024 bytes, got ",
        options.max_stream_bytes);
  thread_ = std::thread([this] {
    begin_own_thread("serve-streams");
    run();
  });
}

StreamStore::~StreamStore() { close(); }

void StreamStore::close() {
  std::map<Name, std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    streams.swap(streams_);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& [name, stream] : streams) stream->cancel();
}

// Feeds clients that are behind, and forgets streams whose time is over.
void StreamStore::run() {
  std::unique_lock lock(mutex_);
  while (!is_closing_) {
    if (streams_.empty())
      changed_.wait(lock);
    else if (is_any_behind_)
      changed_.wait_for(lock, kLook);
    else
      changed_.wait_for(lock, std::chrono::duration<double>(std::min(1., options_.retention / 4)));
    std::vector<std::shared_ptr<Stream>> over, open;
    std::erase_if(streams_, [&](const auto& entry) {
      const bool is_over = entry.second->idle_seconds() >= options_.retention;
      (is_over ? over : open).push_back(entry.second);
      return is_over;
    });
    is_any_behind_ = false;
    lock.unlock();
    for (const auto& stream : over) stream->cancel();
    bool is_any_behind = false;
    for (const auto& stream : open) is_any_behind |= stream->feed();
    open.clear();
    lock.lock();
    is_any_behind_ |= is_any_behind;
  }
}

ReplyPtr StreamStore::keep(const std::string& key, std::string_view id, ReplyPtr client) {
  if (!is_name(id))
    throw ApiError(400,
                   "x-conversation-id: expected 1 to 128 letters, digits, '-', '_', '.' or ':'",
                   "x-conversation-id");
  const auto stream = std::make_shared<Stream>(options_.max_stream_bytes);
  stream->attach(client, 0);
  const std::lock_guard lock(mutex_);
  const Name name(key, id);
  const auto known = streams_.find(name);
  if (known != streams_.end() && !known->second->has_ended())
    throw ApiError(409,
                   "x-conversation-id: an answer with this name is being written; GET or DELETE "
                   "/v1/streams/{id}",
                   "x-conversation-id", "stream_exists");
  if (known == streams_.end() && streams_.size() >= options_.max_streams) {
    // The one that ended first.
    auto oldest = streams_.end();
    double longest = -1;
    for (auto it = streams_.begin(); it != streams_.end(); ++it)
      if (it->second->has_ended() && it->second->idle_seconds() > longest) {
        longest = it->second->idle_seconds();
        oldest = it;
      }
    if (oldest == streams_.end()) {
      ApiError error(429,
                     concat("the server keeps ", options_.max_streams, " streams, and all of ",
                            "them are being written"),
                     "x-conversation-id", "too_many_streams");
      error.headers = {{"retry-after", "5"}};
      throw error;
    }
    streams_.erase(oldest);
  }
  streams_[name] = stream;
  changed_.notify_all();
  return std::make_shared<StreamReply>(stream);
}

std::shared_ptr<StreamStore::Stream> StreamStore::find(const Name& name) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(name);
  if (found == streams_.end())
    throw ApiError(404, "there is no stream with this name", {}, "stream_not_found");
  return found->second;
}

void StreamStore::resume(const std::string& key, const std::string& id, uint64_t from,
                         const ReplyPtr& client) {
  find({key, id})->attach(client, from);
  const std::lock_guard lock(mutex_);
  is_any_behind_ = true;
  changed_.notify_all();
}

void StreamStore::remove(const std::string& key, const std::string& id) {
  const auto stream = find({key, id});
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find({key, id});
    if (found != streams_.end() && found->second == stream) streams_.erase(found);
  }
  stream->cancel();
}

void add_stream_routes(Router& router, StreamStore& streams) {
  router.add({.method = "GET", .path = "/v1/streams/{id}", .handle = [&](Exchange& exchange) {
                // It would cut off the client that reads.
                if (exchange.request.method != "GET")
                  throw ApiError(405, "a stream answers GET and DELETE", {}, "method_not_allowed");
                const std::string& query = exchange.request.query;
                uint64_t from = 0;
                if (!query.empty()) {
                  const char* const end = query.data() + query.size();
                  const std::string_view field = "from=";
                  const bool is_from = query.starts_with(field);
                  const auto [at, error] =
                      std::from_chars(query.data() + (is_from ? field.size() : 0), end, from);
                  if (!is_from || error != std::errc() || at != end)
                    throw ApiError(400, "the query must be from=BYTE", "from");
                }
                streams.resume(exchange.key, exchange.parameter, from, exchange.reply);
              }});
  router.add({.method = "DELETE", .path = "/v1/streams/{id}", .handle = [&](Exchange& exchange) {
                streams.remove(exchange.key, exchange.parameter);
                exchange.reply->send({.body = "{\"deleted\":true}"});
              }});
}

}  // namespace tensora::serve
