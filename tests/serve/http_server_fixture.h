#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "raw_client.h"
#include "tensora/serve/http_server.h"

namespace tensora::serve::testing {

/// Answers by the path: /echo gives the request back, /hold keeps the reply for the test, /drop
/// drops it, /big and /stream write much, /busy keeps the I/O thread, /quick is quick, /count tells
/// how many of the kept replies have bytes to send.
class TestHandler final : public HttpHandler {
 public:
  std::optional<HttpResponse> answer_head(const HttpRequest& head) override {
    if (head.path == "/early") return HttpResponse{.status = 403, .body = "no"};
    return std::nullopt;
  }
  bool is_quick(const HttpRequest& head) const override { return head.path == "/quick"; }
  void handle(HttpRequest request, ReplyPtr reply) override {
    ++handled;
    if (request.path == "/echo") {
      std::string text = request.method + " " + request.path + "?" + request.query + "\n";
      for (const auto& [name, value] : request.headers) text += name + "=" + value + "\n";
      reply->send({.content_type = "text/plain", .body = text + request.body});
    } else if (request.path == "/stream") {
      reply->begin({.content_type = "text/event-stream", .body = "first"});
      reply->write("second");
      reply->write("");
      reply->end();
    } else if (request.path == "/drop-late") {
      reply->begin({.body = "begun"});
    } else if (request.path == "/throw") {
      throw std::runtime_error("secret");
    } else if (request.path == "/busy") {
      is_busy = true;
      eventually([this] { return !is_busy; });
      reply->send({.body = "done"});
    } else if (request.path == "/thread") {
      char name[16] = "";
      pthread_getname_np(pthread_self(), name, sizeof(name));
      reply->send({.body = name});
    } else if (request.path == "/quick") {
      reply->send({.body = "quick"});
    } else if (request.path == "/count") {
      const std::lock_guard lock(mutex);
      const auto count = std::count_if(held.begin(), held.end(),
                                       [](const ReplyPtr& one) { return one->unsent() > 0; });
      reply->send({.body = std::to_string(count)});
    } else if (request.path == "/hold") {
      reply->on_gone([this] { ++gone; });
      const std::lock_guard lock(mutex);
      held.push_back(std::move(reply));
    }
  }
  void on_bad_request(std::string_view, int status, std::string_view) override {
    last_bad = status;
  }
  ReplyPtr one_held() {
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex);
      return !held.empty();
    }));
    const std::lock_guard lock(mutex);
    ReplyPtr reply = std::move(held.back());
    held.pop_back();
    return reply;
  }

  std::atomic<int> handled = 0, gone = 0, last_bad = 0;
  std::atomic<bool> is_busy = false;
  std::mutex mutex;
  std::vector<ReplyPtr> held;
};

/// A server with that handler, and clients.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(const HttpServerOptions& options = {}) {
    server_ = std::make_unique<HttpServer>(options, handler_);
  }
  void TearDown() override {
    handler_.held.clear();
    server_.reset();
  }
  RawClient client(int receive_buffer = 0) { return RawClient(server_->port(), receive_buffer); }
  std::string ask(std::string_view bytes) { return client().send(bytes).read_all(); }

  TestHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace tensora::serve::testing
