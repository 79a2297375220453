#pragma once

#include <string>
#include <string_view>

#include "tensora/serve/http.h"

namespace tensora::serve {

/// How the body of an answer ends.
enum class HttpFraming : unsigned char { length, chunked, connection };

/// The status line and the headers of an answer, with the empty line. Control characters in values
/// become spaces. `length` counts the body's bytes.
std::string response_head(const HttpResponse& response, std::string_view request_id,
                          HttpFraming framing, size_t length, bool keeps_alive);

/// Appends one chunk; `bytes` must not be empty, which would be the end.
void append_chunk(std::string& out, std::string_view bytes);

/// An id that is not guessable: "req_" and 16 hexadecimal digits.
std::string fresh_request_id();
/// Whether a client's x-request-id may stand in logs and headers: 1 to 128 of A-Z a-z 0-9 - _ . : /
bool is_good_request_id(std::string_view id);

}  // namespace tensora::serve
