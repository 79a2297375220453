#include "tensora/serve/http_head.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <random>

namespace tensora::serve {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 400 ? "OK" : "Error";
  }
}

void add(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  out.append("\r\n");
}

// "Tue, 15 Nov 1994 08:12:31 GMT", made once a second on each thread.
std::string_view date_now() {
  thread_local std::time_t made = 0;
  thread_local char text[40] = {};
  const std::time_t now = std::time(nullptr);
  if (now != made) {
    constexpr const char* days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    std::tm parts{};
    gmtime_r(&now, &parts);
    char rest[32];
    std::strftime(rest, sizeof(rest), " %Y %H:%M:%S GMT", &parts);  // nothing of the locale's
    std::snprintf(text, sizeof(text), "%s, %02d %s%s", days[parts.tm_wday], parts.tm_mday,
                  months[parts.tm_mon], rest);
    made = now;
  }
  return text;
}

bool has(const Headers& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const auto& header) { return header.first == name; });
}

}  // namespace

std::string response_head(const HttpResponse& response, std::string_view request_id,
                          HttpFraming framing, size_t length, bool keeps_alive) {
  std::string out;
  out.reserve(320);
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  out.append(reason_of(response.status)).append("\r\n");
  add(out, "server", "tensora");
  add(out, "date", date_now());
  if (!request_id.empty()) add(out, "x-request-id", request_id);
  if (!has(response.headers, "x-content-type-options"))
    add(out, "x-content-type-options", "nosniff");
  const bool has_no_body = response.status == 204 || response.status == 304;
  if (!has_no_body) add(out, "content-type", response.content_type);
  if (framing != HttpFraming::length) {
    if (!has(response.headers, "cache-control")) add(out, "cache-control", "no-cache");
    // nginx would hold a stream back until its buffer is full.
    add(out, "x-accel-buffering", "no");
  }
  for (const auto& [name, value] : response.headers) add(out, name, value);
  if (framing == HttpFraming::chunked)
    add(out, "transfer-encoding", "chunked");
  else if (framing == HttpFraming::length && !has_no_body)
    add(out, "content-length", std::to_string(length));
  if (!keeps_alive) add(out, "connection", "close");
  return out.append("\r\n");
}

void append_chunk(std::string& out, std::string_view bytes) {
  char size[20];
  const auto end = std::to_chars(size, size + sizeof(size), bytes.size(), 16).ptr;
  out.append(size, end).append("\r\n").append(bytes).append("\r\n");
}

std::string fresh_request_id() {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device{}()} << 32) ^
                                      std::random_device{}()};
  constexpr std::string_view digits = "0123456789abcdef";
  std::string id = "req_";
  uint64_t bits = random();
  for (int i = 0; i < 16; ++i, bits >>= 4) id += digits[bits & 15];
  return id;
}

bool is_good_request_id(std::string_view id) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:/").find(c) != std::string_view::npos;
  };
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), is_good);
}

}  // namespace tensora::serve
