#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/serve/api_error.h"
#include "tensora/serve/http.h"

namespace tensora::serve {

/// A client's key, and the name that it has in logs and queues.
struct ApiKey {
  std::string name;
  std::string key;
};

/// Reads lines "name:key" or "key"; empty ones and those that begin with '#' are skipped. Throws
/// Error, which names the line but never shows a key.
std::vector<ApiKey> parse_api_keys(std::string_view text, std::string_view origin);

/// Whether an address or name is this machine only.
bool is_loopback(std::string_view host);

struct GateOptions {
  std::vector<ApiKey> keys = {};  // none: everybody may ask
  /// Only the machine itself can connect. A page of a foreign site then still can, through a name
  /// that resolves to 127.0.0.1 (DNS rebinding), so the Host header has to be one of ours.
  bool is_loopback = true;
  std::vector<std::string> host_names = {};    // allowed in Host beside localhost
  std::vector<std::string> cors_origins = {};  // "https://chat.example.com"; "*": all
  size_t max_active = 4096;                    // requests at once, of all clients
  size_t max_active_per_key = 2048;
};

/// Stands in front of all routes: who may ask, from where, and how many at once.
class Gate {
 public:
  explicit Gate(GateOptions options);

  /// Throws ApiError 401, 403 or 415. Returns the name of the key; empty: there are no keys, or
  /// the route is public.
  std::string check(const HttpRequest& head, bool is_public) const;

  /// Counts a request as long as it lives.
  class Pass {
   public:
    Pass(std::atomic<size_t>& all, std::atomic<size_t>& of_key) : all_(all), of_key_(of_key) {}
    ~Pass() { --all_, --of_key_; }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    std::atomic<size_t>& all_;
    std::atomic<size_t>& of_key_;
  };
  /// Throws ApiError 429 with retry-after where too many are under way. The gate must outlive it.
  std::unique_ptr<Pass> admit(const std::string& key);

  /// Headers that let a page of an allowed origin read the answer; none for others.
  Headers cors_headers(const HttpRequest& head) const;
  /// The answer to a preflight (OPTIONS). `allowed`: the methods of the path.
  HttpResponse preflight(const HttpRequest& head, const std::string& allowed) const;

 private:
  using Digest = std::array<char, 64>;

  static Digest digest_of(std::string_view key);
  std::optional<std::string> name_of(std::string_view key) const;
  void check_host(std::string_view host) const;
  void check_origin(const HttpRequest& head, bool is_public) const;
  bool is_allowed_origin(std::string_view origin) const;

  const GateOptions options_;
  std::vector<std::pair<std::string, Digest>> keys_;
  std::atomic<size_t> active_ = 0;
  std::map<std::string, std::atomic<size_t>> active_of_key_;  // all keys from the start
};

}  // namespace tensora::serve
