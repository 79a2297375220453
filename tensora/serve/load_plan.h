#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tensora/serve/channel.h"

namespace tensora::serve {

/// What a load test sends to a server. Open loop: requests begin at random times, whatever the
/// server does. Closed loop: at most `concurrency` at once, each followed by the next.
struct LoadPlan {
  std::string host = "127.0.0.1";
  int port = 8080;
  std::shared_ptr<const TlsClient> tls = nullptr;         // null: http, not https
  std::string key = {};                                   // API key; empty: none
  std::string path = "/v1/completions";                   // or /v1/chat/completions
  std::string model = {};                                 // empty: the server's first one
  int64_t requests = 0;                                   // in all
  int64_t concurrency = 0;                                // 0: no limit
  double rate = std::numeric_limits<double>::infinity();  // requests per second
  double burstiness = 1;  // shape of the gamma-distributed gaps; 1: Poisson, lower: bursts
  /// The rate grows from `rate` to this one over the requests; 0: it stays.
  double last_rate = 0;
  bool exponential_ramp = false;

  int64_t prompt_tokens = 32, output_tokens = 64;
  double length_spread = 0;   // lengths vary by this share, evenly, up and down
  int64_t prefix_tokens = 0;  // of the prompt, the same in all requests
  int64_t vocabulary = 500;   // token ids of prompts are below
  uint64_t seed = 0;
  double temperature = 0;

  /// Shares of requests by clients that close the connection in the middle of the answer, that
  /// read 100 bytes per second, and that send what is no valid request.
  double vanishing = 0, slow = 0, rubbish = 0;

  double timeout = 600;       // seconds for an answer
  double patience = 5;        // seconds that slow readers go on when all others are done
  int64_t threads = 0;        // that drive the streams; 0: by the streams and the processor's cores
  bool probes_health = true;  // GET /health every 50 ms meanwhile
};

enum class Manner : uint8_t { proper, vanishing, slow, rubbish };

/// What became of a request. Times are seconds since the test began.
struct RequestRecord {
  Manner manner = Manner::proper;
  bool is_complete = false;
  int status = 0;                         // HTTP; 0: no answer
  std::string error = {};                 // why it failed
  double begin = 0, first = 0, last = 0;  // sent; first and last event with text
  int64_t prompt_tokens = 0, output_tokens = 0, events = 0;
  std::vector<float> gaps = {};  // between events with text, seconds
};

struct LoadResult {
  std::vector<RequestRecord> requests;
  double seconds = 0;
  std::vector<double> health;  // seconds that each /health took
  int64_t failed_health = 0;
  int64_t most_at_once = 0;       // requests
  int64_t threads = 1;            // that drove the streams
  int64_t connections = 0;        // that were opened; kept ones are used again
  double client_cpu_seconds = 0;  // of this process
};

/// Runs the plan on the calling thread and, with many streams, on more. Throws where the server
/// cannot be reached at all.
LoadResult run_load(const LoadPlan& plan);

/// The times at which requests begin, in seconds; all 0 where the rate is infinite.
std::vector<double> arrival_times(const LoadPlan& plan);

/// GET or POST in one go; for what stands beside the test. Throws Error where nothing comes back.
struct PlainAnswer {
  int status = 0;
  std::string body = {};
};
PlainAnswer fetch(const LoadPlan& plan, const std::string& method, const std::string& path,
                  const std::string& body = {});

}  // namespace tensora::serve
