#include "tensora/serve/gate.h"

#include <algorithm>
#include <set>

#include "tensora/base/check.h"
#include "tensora/base/sha256.h"

namespace tensora::serve {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

// The name of "name:port" or "[::1]:port", in small letters; of other texts, all of it.
std::string name_in_host(std::string_view host) {
  const size_t end = host.starts_with('[') ? std::min(host.find(']'), host.size() - 1) + 1
                                           : std::min(host.find(':'), host.size());
  const std::string_view port = host.substr(end);
  const bool is_port =
      port.starts_with(':') && port.find_first_not_of("0123456789", 1) == port.npos;
  return lower(port.empty() || is_port ? host.substr(0, end) : host);
}

// The key of "Authorization: Bearer KEY" or "x-api-key: KEY"; empty: none.
std::string_view key_in(const HttpRequest& head) {
  const std::string_view given = head.header("authorization");
  if (given.empty()) return head.header("x-api-key");
  constexpr std::string_view scheme = "bearer ";
  if (lower(given.substr(0, scheme.size())) != scheme) return {};
  return trimmed(given.substr(scheme.size()));
}

bool is_json(std::string_view type) {
  return lower(trimmed(type.substr(0, type.find(';')))) == "application/json";
}

}  // namespace

std::vector<ApiKey> parse_api_keys(std::string_view text, std::string_view origin) {
  std::vector<ApiKey> keys;
  std::set<std::string> names, values;
  int number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty() || line.starts_with('#')) continue;
    const auto demand = [&](bool is_good, std::string_view what) {
      tensora::check(is_good, "API keys: line ", number + 1, " of ", origin, ": ", what);
    };
    const size_t colon = line.find(':');
    ApiKey key;
    key.key = line.substr(colon == line.npos ? 0 : colon + 1);
    key.name = colon == line.npos ? concat("key-", number + 1) : std::string(line.substr(0, colon));
    demand(is_name(key.name), "a name has 1 to 64 letters, digits, '-', '_' or '.'");
    demand(key.key.size() >= 8, "a key has at least 8 characters");
    demand(std::all_of(key.key.begin(), key.key.end(), [](char c) { return c > ' ' && c <= '~'; }),
           "a key has no spaces and only ASCII characters");
    demand(names.insert(key.name).second, concat("the name '", key.name, "' is there twice"));
    demand(values.insert(key.key).second, "the key is there twice");
    keys.push_back(std::move(key));
  }
  return keys;
}

bool is_loopback(std::string_view host) {
  // A name such as 127.example.com may be an address of any machine.
  const bool is_number = host.find_first_not_of("0123456789.") == host.npos;
  return host == "localhost" || host == "::1" || (host.starts_with("127.") && is_number);
}

Gate::Gate(GateOptions options) : options_(std::move(options)) {
  for (const ApiKey& key : options_.keys) {
    keys_.emplace_back(key.name, digest_of(key.key));
    active_of_key_[key.name] = 0;
  }
  active_of_key_[""] = 0;
}

Gate::Digest Gate::digest_of(std::string_view key) {
  Sha256 hash;
  hash.update({reinterpret_cast<const uint8_t*>(key.data()), key.size()});
  const std::string hex = hash.hex();
  Digest digest{};
  std::copy_n(hex.begin(), digest.size(), digest.begin());
  return digest;
}

// The time does not depend on how much of a key is right, nor on which one it is: digests have one
// length, and all bytes of all keys are compared.
std::optional<std::string> Gate::name_of(std::string_view key) const {
  const Digest given = digest_of(key);
  size_t found = keys_.size();
  for (size_t i = 0; i < keys_.size(); ++i) {
    unsigned difference = 0;
    for (size_t at = 0; at < given.size(); ++at)
      difference |= static_cast<unsigned char>(given[at] ^ keys_[i].second[at]);
    const size_t is_it = difference == 0 ? 1 : 0;
    found = is_it * i + (1 - is_it) * found;
  }
  if (found == keys_.size()) return std::nullopt;
  return keys_[found].first;
}

void Gate::check_host(std::string_view host) const {
  if (host.empty() || (!options_.is_loopback && options_.host_names.empty())) return;
  const std::string name = name_in_host(host);
  for (const std::string_view own : {"localhost", "127.0.0.1", "[::1]"})
    if (name == own) return;
  for (const std::string& own : options_.host_names)
    if (name == name_in_host(own)) return;
  throw ApiError(403,
                 concat("this server does not answer for the host '", name,
                        "'; start it with --host-name ", name, " if it should"),
                 {}, "foreign_host");
}

bool Gate::is_allowed_origin(std::string_view origin) const {
  return std::any_of(options_.cors_origins.begin(), options_.cors_origins.end(),
                     [&](const std::string& allowed) {
                       return allowed == "*" || lower(allowed) == lower(origin);
                     });
}

void Gate::check_origin(const HttpRequest& head, bool is_public) const {
  const std::string_view origin = head.header("origin");
  if (!origin.empty()) {
    const size_t scheme = origin.find("://");
    const bool is_same =
        scheme != origin.npos && lower(origin.substr(scheme + 3)) == lower(head.header("host"));
    if (is_same || is_allowed_origin(origin)) return;
    throw ApiError(403,
                   concat("pages of the origin '", origin,
                          "' may not use this server; --cors-origin allows one"),
                   {}, "foreign_origin");
  }
  if (head.header("sec-fetch-site") != "cross-site") return;
  // A link to the page from elsewhere is no more than that.
  if (is_public && head.method == "GET" && head.header("sec-fetch-mode") == "navigate") return;
  throw ApiError(403, "pages of other sites may not use this server; --cors-origin allows one", {},
                 "foreign_origin");
}

std::string Gate::check(const HttpRequest& head, bool is_public) const {
  check_host(head.header("host"));
  check_origin(head, is_public);
  std::string name;
  if (!is_public && !keys_.empty()) {
    const std::string_view key = key_in(head);
    const auto found = name_of(key);
    if (!found) {
      ApiError error(401,
                     key.empty() ? "an API key is required: Authorization: Bearer KEY"
                                 : "the API key is not valid",
                     {}, "invalid_api_key");
      error.headers = {{"www-authenticate", "Bearer"}};
      throw error;
    }
    name = *found;
  }
  // A form of a foreign page can be sent without asking first; JSON cannot.
  if (head.method == "POST" && !is_json(head.header("content-type")))
    throw ApiError(415, "expected Content-Type: application/json", {}, "unsupported_media_type");
  return name;
}

std::unique_ptr<Gate::Pass> Gate::admit(const std::string& key) {
  std::atomic<size_t>& of_key = active_of_key_.at(key);
  auto pass = [&] {
    ++active_, ++of_key;
    return std::make_unique<Pass>(active_, of_key);
  }();
  const bool is_key = of_key > options_.max_active_per_key;
  if (!is_key && active_ <= options_.max_active) return pass;
  ApiError error(
      429,
      is_key ? concat("more than ", options_.max_active_per_key, " requests at once with one key")
             : concat("more than ", options_.max_active, " requests at once"),
      {}, "too_many_requests");
  error.headers = {{"retry-after", "1"}};
  throw error;
}

Headers Gate::cors_headers(const HttpRequest& head) const {
  const std::string_view origin = head.header("origin");
  if (origin.empty() || !is_allowed_origin(origin)) return {};
  return {{"access-control-allow-origin", std::string(origin)},
          {"vary", "origin"},
          {"access-control-expose-headers", "x-request-id, retry-after, x-tensora-ignored"}};
}

HttpResponse Gate::preflight(const HttpRequest& head, const std::string& allowed) const {
  HttpResponse response{.status = 204, .headers = cors_headers(head)};
  response.headers.emplace_back("allow", allowed + ", OPTIONS");
  if (response.headers.size() == 1) return response;
  response.headers.emplace_back("access-control-allow-methods", allowed);
  const std::string_view asked = head.header("access-control-request-headers");
  response.headers.emplace_back(
      "access-control-allow-headers",
      asked.empty() ? "authorization, content-type, x-api-key" : std::string(asked));
  response.headers.emplace_back("access-control-max-age", "600");
  return response;
}

}  // namespace tensora::serve
