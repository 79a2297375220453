#include "tensora/serve/page_routes.h"

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Calls look(element) for the elements of a header's list until it returns true; whether it did.
template <class Look>
bool any_of_list(std::string_view list, const Look& look) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (look(trimmed(list.substr(begin, end - begin)))) return true;
    begin = end + 1;
  }
  return false;
}

// "gzip", "gzip;q=0.5", but not "gzip;q=0" nor "gzip;q=0.000".
bool accepts_gzip(std::string_view header) {
  return any_of_list(header, [](std::string_view coding) {
    const size_t semicolon = std::min(coding.find(';'), coding.size());
    if (trimmed(coding.substr(0, semicolon)) != "gzip") return false;
    const size_t weight = coding.find("q=", semicolon);
    return weight == coding.npos ||
           coding.substr(weight + 2).find_first_of("123456789") != coding.npos;
  });
}

bool has_tag(std::string_view header, std::string_view tag) {
  return any_of_list(header, [&](std::string_view known) {
    if (known.starts_with("W/")) known.remove_prefix(2);
    return known == "*" || known == tag;
  });
}

}  // namespace

void add_page_routes(Router& router) {
  const auto handle = [](Exchange& exchange) {
    const bool compressed = accepts_gzip(exchange.request.header("accept-encoding"));
    const std::string tag = concat("\"", page().tag, compressed ? "-gzip\"" : "\"");
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.headers = {{"etag", tag},
                        {"vary", "accept-encoding"},
                        {"cache-control", "no-cache"},
                        {"content-security-policy", std::string(page().policy)},
                        {"x-content-type-options", "nosniff"},
                        {"referrer-policy", "no-referrer"}};
    if (has_tag(exchange.request.header("if-none-match"), tag)) {
      response.status = 304;
    } else if (compressed) {
      response.headers.emplace_back("content-encoding", "gzip");
      response.body = page().gzip;
    } else {
      response.body = page().html;
    }
    exchange.reply->send(std::move(response));
  };
  router.add({.method = "GET", .path = "/", .handle = handle, .is_public = true, .is_quick = true});
}

}  // namespace tensora::serve
