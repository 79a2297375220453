#include "tensora/serve/router.h"

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

// Whether a path is a route's, and what stands for its last part in braces.
bool fits(std::string_view pattern, std::string_view path, std::string& parameter) {
  const size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) return pattern == path;
  if (path.size() <= brace || path.substr(0, brace) != pattern.substr(0, brace)) return false;
  parameter = path.substr(brace);
  return true;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

void Router::add(Route route) {
  for (const Route& known : routes_)
    check(known.method != route.method || known.path != route.path, "router: ", route.method, " ",
          route.path, " is there already");
  routes_.push_back(std::move(route));
}

const Route* Router::find(std::string_view method, std::string_view path, std::string& parameter,
                          std::string& allowed) const {
  const Route* found = nullptr;
  allowed.clear();
  for (const Route& route : routes_) {
    std::string rest;
    if (!fits(route.path, path, rest)) continue;
    allowed += allowed.empty() ? route.method : ", " + route.method;
    if (found || (route.method != method && !(method == "HEAD" && route.method == "GET"))) continue;
    found = &route;
    parameter = std::move(rest);
  }
  return found;
}

}  // namespace tensora::serve
