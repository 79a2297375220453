#pragma once

#include <stdexcept>
#include <string>

#include "tensora/serve/http.h"

namespace tensora::serve {

/// What a client did wrong, or why the server cannot answer now. Each dialect writes it in its own
/// shape; the message is meant for the client.
class ApiError : public std::runtime_error {
 public:
  ApiError(int http_status, const std::string& message, std::string parameter = {},
           std::string error_code = {})
      : std::runtime_error(message),
        status(http_status),
        param(std::move(parameter)),
        code(std::move(error_code)) {}

  int status;            // 400, 401, 403, 404, 413, 429, 503, ...
  std::string param;     // the field that is wrong: "messages[1].content"; empty: none
  std::string code;      // for programs: "model_not_found", "context_length_exceeded"; empty: none
  Headers headers = {};  // such as retry-after
};

}  // namespace tensora::serve
