#include <nlohmann/json.hpp>

#include "tensora/serve/router.h"

namespace tensora::serve {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

HttpResponse openai_error(const ApiError& error) {
  using Json = nlohmann::json;
  const Json body = {{"error",
                      {{"message", error.what()},
                       {"type", type_of(error.status)},
                       {"param", error.param.empty() ? Json() : Json(error.param)},
                       {"code", error.code.empty() ? Json() : Json(error.code)}}}};
  return {.status = error.status,
          .headers = error.headers,
          .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

}  // namespace tensora::serve
