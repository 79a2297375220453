#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/serve/api_error.h"
#include "tensora/serve/http.h"

namespace tensora::serve {

/// A request on its way through the server, and the way back.
struct Exchange {
  HttpRequest request;
  ReplyPtr reply;
  std::string key;        // the name of the API key that it came with; empty: no keys are in use
  std::string parameter;  // what stands for {name} in the route's path
};

/// An error in the shape that a dialect's clients expect.
using ErrorShape = HttpResponse (*)(const ApiError& error);
/// {"error": {"message", "type", "param", "code"}}
HttpResponse openai_error(const ApiError& error);

/// What is served under a path.
struct Route {
  std::string method;  // GET, POST or DELETE; HEAD is answered as GET without its body
  /// "/v1/models/{id}": a last part in braces stands for all the rest, slashes included.
  std::string path;
  /// Throws an ApiError for what the client did wrong; what else it throws is "internal error" for
  /// the client and a line in the log. It may keep the reply and answer later.
  std::function<void(Exchange& exchange)> handle = nullptr;
  ErrorShape error = openai_error;
  /// Answered without a key: health and the page alone.
  bool is_public = false;
  /// Answered on the I/O thread, within microseconds and without waiting for anything; the others
  /// run on the pool.
  bool is_quick = false;
};

/// The one table of all that is served.
class Router {
 public:
  /// Throws where the method and path are taken.
  void add(Route route);
  /// The route of a request, with `parameter` set; null: there is none. `allowed` gets the methods
  /// that the path has.
  const Route* find(std::string_view method, std::string_view path, std::string& parameter,
                    std::string& allowed) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace tensora::serve
