#pragma once

#include <random>

#include "tensora/serve/load_plan.h"

namespace tensora::serve {

/// Makes the requests of a plan one by one; the same plan and seed give the same requests.
class RequestMaker {
 public:
  explicit RequestMaker(const LoadPlan& plan);

  struct Made {
    Manner manner = Manner::proper;
    std::string bytes = {};     // of the whole HTTP request
    int64_t output_tokens = 0;  // that it asks for
    int64_t last_event = 0;     // a vanishing client leaves after this many
    bool resets = false;        // it leaves by RST
  };
  Made next();

 private:
  int64_t length(int64_t mean);
  double share() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  std::string body(int64_t output_tokens);
  std::string rubbish();

  const LoadPlan& plan_;
  std::mt19937_64 random_;
  std::vector<int64_t> prefix_;
};

/// The head and the body of a request to the plan's server.
std::string http_request(const LoadPlan& plan, const std::string& method, const std::string& path,
                         const std::string& body);

}  // namespace tensora::serve
