#include "tensora/serve/front_desk.h"

#include <chrono>
#include <optional>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tensora::serve {
namespace {

using Clock = std::chrono::steady_clock;

// In the log, where the client went before there was an answer. nginx says the same.
constexpr int kGone = 499;

// A reply that adds headers to the answer, holds the request's place, and tells the log about the
// answer when it is over.
class TrackedReply final : public Reply {
 public:
  TrackedReply(ReplyPtr reply, std::shared_ptr<AccessLog> log, AccessRecord record, Headers headers,
               std::shared_ptr<Gate> gate, std::unique_ptr<Gate::Pass> pass)
      : reply_(std::move(reply)),
        log_(std::move(log)),
        record_(std::move(record)),
        headers_(std::move(headers)),
        gate_(std::move(gate)),
        pass_(std::move(pass)) {}
  ~TrackedReply() override {
    record_.is_gone = reply_->is_gone();
    record_.status = status_ != 0 ? status_.load() : record_.is_gone ? kGone : 500;
    record_.bytes_out = bytes_;
    record_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    log_->add(record_);
  }

  void send(HttpResponse response) override {
    note(response);
    reply_->send(std::move(response));
  }
  void begin(HttpResponse head) override {
    note(head);
    reply_->begin(std::move(head));
  }
  void write(std::string_view bytes) override {
    bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
    reply_->write(bytes);
  }
  void end() override { reply_->end(); }
  size_t unsent() const override { return reply_->unsent(); }
  bool is_gone() const override { return reply_->is_gone(); }
  void on_gone(std::function<void()> callback) override { reply_->on_gone(std::move(callback)); }

 private:
  void note(HttpResponse& response) {
    int none = 0;
    if (!status_.compare_exchange_strong(none, response.status)) return;
    bytes_.fetch_add(response.body.size(), std::memory_order_relaxed);
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  }

  const ReplyPtr reply_;
  const std::shared_ptr<AccessLog> log_;
  AccessRecord record_;
  const Headers headers_;
  const std::shared_ptr<Gate> gate_;  // of the pass
  const std::unique_ptr<Gate::Pass> pass_;
  const Clock::time_point began_ = Clock::now();
  std::atomic<int> status_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
};

AccessRecord record_of(const HttpRequest& request, std::string key) {
  return {.id = request.id,
          .address = request.address,
          .key = std::move(key),
          .method = request.method,
          .path = request.path,
          .bytes_in = request.body.size()};
}

ApiError busy(const std::string& message, const char* code) {
  ApiError error(503, message, {}, code);
  error.headers = {{"retry-after", "1"}};
  return error;
}

// To parse and encode megabytes takes seconds, in which others are to be answered, and much memory.
constexpr size_t kLongBody = 1 << 20, kMostLongWaiting = 1024;
constexpr int kLongThreads = 2;

// The heap would keep what a long body and its parts took.
void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// What a handler throws becomes the answer; details of what is not the client's fault stay here.
void run_route(const Route& route, Exchange& exchange, AccessLog& log) {
  try {
    route.handle(exchange);
  } catch (const ApiError& error) {
    exchange.reply->send(route.error(error));
  } catch (const std::exception& error) {
    log.event("internal_error", error.what(), exchange.request.id);
    exchange.reply->send(route.error(ApiError(500, "internal error")));
  }
}

}  // namespace

FrontDesk::FrontDesk(const Router& router, std::shared_ptr<Gate> gate, WorkerPool& pool,
                     std::shared_ptr<AccessLog> log, StreamStore* streams)
    : router_(router),
      gate_(std::move(gate)),
      pool_(pool),
      log_(std::move(log)),
      streams_(streams),
      long_pool_(kLongThreads, kMostLongWaiting) {}

void FrontDesk::check_draining(const Route& route) const {
  if (is_draining_ && !route.is_quick) throw busy("the server is shutting down", "shutting_down");
}

std::optional<HttpResponse> FrontDesk::answer_head(const HttpRequest& head) {
  std::string parameter, allowed;
  const Route* route = router_.find(head.method, head.path, parameter, allowed);
  HttpResponse response;
  try {
    // A preflight carries no key; it tells only which methods a path has.
    const bool is_preflight = head.method == "OPTIONS" && (!allowed.empty() || head.path == "*");
    gate_->check(head, is_preflight || (route && route->is_public));
    if (route) {
      check_draining(*route);
      return std::nullopt;
    }
    if (is_preflight) {
      response = gate_->preflight(head, allowed.empty() ? "GET, POST" : allowed);
    } else if (allowed.empty()) {
      throw ApiError(404, "there is nothing at " + head.path, {}, "not_found");
    } else {
      ApiError error(405, head.path + " answers " + allowed + ", not " + head.method, {},
                     "method_not_allowed");
      error.headers = {{"allow", allowed + ", OPTIONS"}};
      throw error;
    }
  } catch (const ApiError& error) {
    response = route ? route->error(error) : openai_error(error);
    const Headers headers = gate_->cors_headers(head);
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  }
  AccessRecord record = record_of(head, {});
  record.status = response.status;
  record.bytes_out = response.body.size();
  log_->add(record);
  return response;
}

bool FrontDesk::is_quick(const HttpRequest& head) const {
  std::string parameter, allowed;
  const Route* route = router_.find(head.method, head.path, parameter, allowed);
  return route && route->is_quick;
}

void FrontDesk::handle(HttpRequest request, ReplyPtr reply) {
  auto exchange = std::make_shared<Exchange>();
  std::string allowed;
  const Route* route = router_.find(request.method, request.path, exchange->parameter, allowed);
  exchange->key = gate_->check(request, route->is_public);
  const Headers headers = gate_->cors_headers(request);
  AccessRecord record = record_of(request, exchange->key);
  std::unique_ptr<Gate::Pass> pass;
  const auto track = [&] {
    exchange->reply = std::make_shared<TrackedReply>(std::move(reply), log_, std::move(record),
                                                     headers, gate_, std::move(pass));
  };
  try {
    if (!route->is_quick) {
      pass = gate_->admit(exchange->key);
      check_draining(*route);
    }
    track();
  } catch (const ApiError& error) {
    track();
    exchange->reply->send(route->error(error));
    return;
  }
  if (const auto id = request.header("x-conversation-id");
      streams_ && !id.empty() && request.method == "POST") {
    try {
      exchange->reply = streams_->keep(exchange->key, id, exchange->reply);
    } catch (const ApiError& error) {
      exchange->reply->send(route->error(error));
      return;
    }
  }
  exchange->request = std::move(request);
  if (route->is_quick) return run_route(*route, *exchange, *log_);
  const bool is_long = exchange->request.body.size() > kLongBody;
  const auto run = [route, exchange, log = log_, is_long] {
    run_route(*route, *exchange, *log);
    if (!is_long) return;
    exchange->request.body = {};
    trim_heap();
  };
  WorkerPool& pool = is_long ? long_pool_ : pool_;
  if (!pool.add(run))
    exchange->reply->send(route->error(busy("the server is busy", "server_busy")));
}

void FrontDesk::on_bad_request(std::string_view address, int status, std::string_view reason) {
  log_->event("bad_request",
              std::to_string(status) + " to " + std::string(address) + ": " + std::string(reason));
}

}  // namespace tensora::serve
