// The only source that includes Boost.Beast.
#include "tensora/serve/http_parser.h"

#include <algorithm>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <functional>
#include <optional>

#include "tensora/base/check.h"
#include "tensora/serve/api_error.h"

// Note [Framing]
// Request smuggling needs two programs that disagree about where a request ends. Beast refuses most
// of what makes them disagree: a Content-Length beside a Transfer-Encoding, broken lengths and
// chunk sizes, NUL. It accepts folded headers, codings that it does not know (and then ignores the
// body), missing or repeated Host headers, targets with a scheme, and line feeds in the quoted
// values of chunk extensions, and it limits headers by their bytes alone. So the bytes of the head
// are checked before Beast sees them, the fields after it, and the extension of each chunk.
// Trailers of a chunked body are read and dropped: a header has to come where the checks look.

namespace tensora::serve {
namespace {

namespace http = boost::beast::http;

// Collects the body. Unlike Beast's string_body it reserves nothing: a client that announces 32 MiB
// and sends nothing costs nothing.
struct TextBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& error) {
      error = {};
    }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::beast::error_code& error) {
      error = {};
      size_t count = 0;
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        count += buffer.size();
      }
      return count;
    }
    void finish(boost::beast::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

constexpr std::string_view kLastChunk = "0\r\n\r\n";
constexpr size_t kMostExtension = 1024;  // bytes, of a chunk; nobody reads them

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

[[noreturn]] void refuse(int status, const std::string& message) {
  throw ApiError(status, message, {}, "bad_http");
}

// Bytes of a head that is perhaps not complete: what is wrong in them stays wrong.
void check_bytes(std::string_view bytes, size_t from) {
  for (size_t i = from; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\n' && (i == 0 || bytes[i - 1] != '\r'))
      refuse(400, "a line of the request ends with a line feed alone; CR LF is required");
    if (c == '\r' && i + 1 < bytes.size() && bytes[i + 1] != '\n')
      refuse(400, "the request's head has a carriage return inside a line");
    if (is_control(c) && c != '\t' && c != '\r' && c != '\n')
      refuse(400, "the request's head has a control character");
  }
}

// METHOD SP TARGET SP VERSION
void check_request_line(std::string_view line, const HttpLimits& limits) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == 0 || first == std::string_view::npos || first == last)
    refuse(400, "the request line is not METHOD TARGET HTTP/VERSION");
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (!version.starts_with("HTTP/")) refuse(400, "the request line does not end in HTTP/VERSION");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    refuse(505, concat("expected HTTP/1.1 or HTTP/1.0, got ", version));
  constexpr std::string_view known[] = {"GET",     "HEAD",  "POST",    "PUT",  "DELETE",
                                        "CONNECT", "TRACE", "OPTIONS", "PATCH"};
  if (std::find(std::begin(known), std::end(known), method) == std::end(known))
    refuse(501, "the request's method is not one of HTTP/1.1");
  if (target.size() > limits.target_bytes)
    refuse(414, concat("the target is longer than ", limits.target_bytes, " bytes"));
  if (target == "*" && method == "OPTIONS") return;
  if (target.empty() || target[0] != '/') refuse(400, "the target does not begin with '/'");
  for (const char c : target)
    if (c <= ' ' || c > '~' || c == '#')
      refuse(400, "the target has a character that is not encoded");
}

// The lines of a complete head, without the empty one.
void check_lines(std::string_view head, const HttpLimits& limits) {
  size_t count = 0, begin = 0;
  while (begin < head.size()) {
    const size_t end = head.find("\r\n", begin);
    const std::string_view line = head.substr(begin, end - begin);
    if (begin == 0) {
      check_request_line(line, limits);
    } else {
      if (line.starts_with(' ') || line.starts_with('\t'))
        refuse(400, "a header is folded over several lines");
      if (++count > limits.headers)
        refuse(431, concat("the request has more than ", limits.headers, " headers"));
    }
    begin = end + 2;
  }
}

// The value of a header that may be there once.
std::optional<std::string_view> only(const Headers& headers, std::string_view name) {
  std::optional<std::string_view> found;
  for (const auto& [key, value] : headers) {
    if (key != name) continue;
    if (found) refuse(400, concat("the request has more than one ", name, " header"));
    found = value;
  }
  return found;
}

void check_host(std::string_view host) {
  const auto is_allowed = [](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:[]").find(c) != std::string_view::npos;
  };
  if (host.empty() || host.size() > 300 || !std::all_of(host.begin(), host.end(), is_allowed))
    refuse(400, "the Host header is not NAME or NAME:PORT");
}

void check_length(std::string_view length, const HttpLimits& limits) {
  if (length.empty() || length.size() > 19 ||
      !std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; }))
    refuse(400, "the Content-Length header is not a number of bytes");
  if (std::stoull(std::string(length)) > limits.body_bytes)
    refuse(413, concat("the body is larger than ", limits.body_bytes, " bytes"));
}

// What Beast lets through (Note [Framing]).
void check_fields(const Headers& headers, bool is_http_1_0, const HttpLimits& limits) {
  for (const std::string_view name : {"content-type", "authorization", "x-api-key", "origin",
                                      "content-encoding", "sec-fetch-site", "expect"})
    only(headers, name);
  const auto host = only(headers, "host");
  if (host) check_host(*host);
  if (!host && !is_http_1_0) refuse(400, "the request has no Host header");
  const auto length = only(headers, "content-length");
  const auto coding = only(headers, "transfer-encoding");
  if (length && coding) refuse(400, "the request has both Content-Length and Transfer-Encoding");
  if (coding && (is_http_1_0 || !equals_ignoring_case(*coding, "chunked")))
    refuse(is_http_1_0 ? 400 : 501, "the only Transfer-Encoding that is read is 'chunked'");
  if (length) check_length(*length, limits);
  const auto encoding = only(headers, "content-encoding");
  if (encoding && !equals_ignoring_case(*encoding, "identity"))
    refuse(415, "a body with a Content-Encoding is not read");
  const auto expect = only(headers, "expect");
  if (expect && !equals_ignoring_case(*expect, "100-continue"))
    refuse(417, "the only expectation that is met is '100-continue'");
}

}  // namespace

struct HttpParser::State {
  explicit State(const HttpLimits& given) : limits(given) {
    parser.on_chunk_header(check_extension);
    parser.header_limit(static_cast<std::uint32_t>(given.header_bytes) + 1024);
    parser.body_limit(given.body_bytes);
    parser.eager(true);
  }

  void put(std::string& input, size_t size) {
    boost::beast::error_code error;
    const size_t taken = parser.put(boost::asio::const_buffer(input.data(), size), error);
    input.erase(0, taken);
    if (!error || error == http::error::need_more) return;
    if (error == http::error::body_limit)
      refuse(413, concat("the body is larger than ", limits.body_bytes, " bytes"));
    refuse(error == http::error::header_limit ? 431 : 400,
           concat("the request is not valid HTTP: ", error.message()));
  }

  void copy_head() {
    const auto& message = parser.get();
    const std::string_view method(message.method_string().data(), message.method_string().size());
    const std::string_view target(message.target().data(), message.target().size());
    const size_t query = target.find('?');
    request.method = method;
    request.path = percent_decoded(target.substr(0, query));
    if (query != std::string_view::npos) request.query = target.substr(query + 1);
    for (const auto& field : message) {
      std::string name(field.name_string().data(), field.name_string().size());
      std::transform(name.begin(), name.end(), name.begin(), lower);
      request.headers.emplace_back(std::move(name),
                                   std::string(field.value().data(), field.value().size()));
    }
  }

  // See Note [Framing]. Beast keeps a reference.
  std::function<void(std::uint64_t, boost::beast::string_view, boost::beast::error_code&)>
      check_extension = [](std::uint64_t, boost::beast::string_view text, auto& error) {
        const bool is_good =
            text.size() <= kMostExtension && std::none_of(text.begin(), text.end(), is_control);
        if (!is_good) error = http::error::bad_chunk_extension;
      };
  const HttpLimits limits;
  bool has_begun = false;
  size_t checked = 0;  // bytes at the front of the input that have been looked at
  http::request_parser<TextBody> parser;
  HttpRequest request;
};

HttpParser::HttpParser(const HttpLimits& limits) : state_(std::make_unique<State>(limits)) {}
HttpParser::~HttpParser() = default;

bool HttpParser::read_head(std::string& input) {
  State& state = *state_;
  if (!state.has_begun) {
    // One empty line before a request is old clients' habit, which RFC 9112 asks servers to bear.
    if (input.empty() || input == "\r") return false;
    if (input.starts_with("\r\n")) input.erase(0, 2);
    state.has_begun = true;
  }
  const size_t from = state.checked < 3 ? 0 : state.checked - 3;
  const size_t found = input.find("\r\n\r\n", from);
  const std::string_view head =
      std::string_view(input).substr(0, found == std::string::npos ? found : found + 4);
  check_bytes(head, state.checked == 0 ? 0 : state.checked - 1);
  state.checked = head.size();
  if (head.size() > state.limits.header_bytes) {
    if (head.find("\r\n") == std::string_view::npos)
      refuse(414, concat("the target is longer than ", state.limits.target_bytes, " bytes"));
    refuse(431, concat("the headers are longer than ", state.limits.header_bytes, " bytes"));
  }
  if (found == std::string::npos) return false;
  check_lines(head.substr(0, found + 2), state.limits);
  state.put(input, head.size());
  ensure(state.parser.is_header_done(), "http: the parser wants more than the head");
  state.copy_head();
  check_fields(state.request.headers, is_http_1_0(), state.limits);
  return true;
}

bool HttpParser::read_body(std::string& input) {
  State& state = *state_;
  // A chunk's size, extensions and trailers are parsed only as a whole, so a long one waits in the
  // input.
  while (!state.parser.is_done()) {
    const size_t before = input.size();
    // No rest of a chunked body is shorter than the last chunk, on which Beast relies.
    if (before == 0 || (state.parser.chunked() && before < kLastChunk.size())) return false;
    state.put(input, before);
    if (input.size() == before && !state.parser.is_done()) {
      if (before > state.limits.header_bytes)
        refuse(400, "the extension of a chunk or the trailer is too long");
      return false;
    }
  }
  state.request.body = std::move(state.parser.get().body());
  return true;
}

HttpRequest& HttpParser::request() { return state_->request; }

bool HttpParser::has_body() const {
  const auto length = state_->parser.content_length();
  return state_->parser.chunked() || (length && *length > 0);
}

bool HttpParser::is_http_1_0() const { return state_->parser.get().version() == 10; }

bool HttpParser::keeps_alive() const { return state_->parser.get().keep_alive(); }

bool HttpParser::expects_continue() const {
  return !is_http_1_0() && !state_->request.header("expect").empty();
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) refuse(400, "the target has a '%' without two hexadecimal digits");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (is_control(c)) refuse(400, "the target has a control character");
    out += c;
  }
  return out;
}

}  // namespace tensora::serve
