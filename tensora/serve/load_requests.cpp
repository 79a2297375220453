#include "tensora/serve/load_requests.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

constexpr int64_t kFirstToken = 3;  // behind the special tokens of most vocabularies

int64_t draw(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, std::max(low, high))(random);
}

std::string word_of(int64_t token) {
  static constexpr const char* words[] = {"the",  "little", "dog",  "ran", "to",   "a",    "big",
                                          "tree", "and",    "saw",  "her", "red",  "ball", "then",
                                          "she",  "was",    "very", "sad", "said", "he"};
  return words[static_cast<size_t>(token) % std::size(words)];
}

}  // namespace

std::string http_request(const LoadPlan& plan, const std::string& method, const std::string& path,
                         const std::string& body) {
  std::string out = concat(method, " ", path, " HTTP/1.1\r\nHost: ", plan.host, ":", plan.port,
                           "\r\nUser-Agent: tensora-bench\r\n");
  if (!plan.key.empty()) out += concat("Authorization: Bearer ", plan.key, "\r\n");
  if (method == "POST")
    out += concat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  return out + "\r\n" + body;
}

std::vector<double> arrival_times(const LoadPlan& plan) {
  std::vector<double> times(static_cast<size_t>(plan.requests));
  if (!std::isfinite(plan.rate)) return times;
  check(plan.rate > 0, "load: rate must be above 0 requests per second, got ", plan.rate);
  check(plan.burstiness > 0, "load: burstiness must be above 0, got ", plan.burstiness);
  std::mt19937_64 random(plan.seed + 1);
  double time = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    double rate = plan.rate;
    if (plan.last_rate > 0 && times.size() > 1) {
      const double part = static_cast<double>(i) / static_cast<double>(times.size() - 1);
      rate = plan.exponential_ramp ? plan.rate * std::pow(plan.last_rate / plan.rate, part)
                                   : plan.rate + (plan.last_rate - plan.rate) * part;
    }
    times[i] = time;
    // Its mean is 1 / rate, whatever the shape.
    time += std::gamma_distribution<double>(plan.burstiness, 1 / (rate * plan.burstiness))(random);
  }
  return times;
}

RequestMaker::RequestMaker(const LoadPlan& plan) : plan_(plan), random_(plan.seed) {
  check(plan.prompt_tokens > 0 && plan.output_tokens > 0,
        "load: prompts and answers must have at least one token");
  check(plan.length_spread >= 0 && plan.length_spread < 1,
        "load: the spread of lengths must be from 0 to below 1, got ", plan.length_spread);
  check(plan.vocabulary > kFirstToken, "load: the vocabulary must have more than ", kFirstToken,
        " tokens, got ", plan.vocabulary);
  for (int64_t i = 0; i < plan.prefix_tokens; ++i)
    prefix_.push_back(draw(random_, kFirstToken, plan.vocabulary - 1));
}

int64_t RequestMaker::length(int64_t mean) {
  const auto spread = static_cast<int64_t>(static_cast<double>(mean) * plan_.length_spread);
  return std::max(int64_t{1}, draw(random_, mean - spread, mean + spread));
}

std::string RequestMaker::body(int64_t output_tokens) {
  std::vector<int64_t> tokens = prefix_;
  for (int64_t left = length(plan_.prompt_tokens); left > 0; --left)
    tokens.push_back(draw(random_, kFirstToken, plan_.vocabulary - 1));
  nlohmann::ordered_json body;
  if (!plan_.model.empty()) body["model"] = plan_.model;
  if (plan_.path.ends_with("/chat/completions")) {
    std::string text;
    for (const int64_t token : tokens) text += (text.empty() ? "" : " ") + word_of(token);
    body["messages"] = {{{"role", "user"}, {"content", text}}};
  } else {
    body["prompt"] = tokens;
  }
  body["max_tokens"] = output_tokens;
  body["temperature"] = plan_.temperature;
  body["ignore_eos"] = true;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  return body.dump();
}

// Requests that a server must refuse, or close the connection on.
std::string RequestMaker::rubbish() {
  const auto post = [&](const std::string& body) {
    return http_request(plan_, "POST", plan_.path, body);
  };
  switch (draw(random_, 0, 6)) {
    case 0: {
      std::string bytes(200, '\0');
      for (char& byte : bytes) byte = static_cast<char>(draw(random_, 0, 255));
      return bytes + "\r\n\r\n";
    }
    case 1:
      return post(R"({"prompt": [1, 2,,, "max_tokens": })");
    case 2:
      return post(R"({"prompt": "a", "max_tokens": -5, "stream": true})");
    case 3:
      return post(R"({"prompt": )" + std::string(5000, '[') + "}");
    case 4:
      return concat("POST ", plan_.path, " HTTP/1.1\r\nHost: ", plan_.host, ":", plan_.port,
                    "\r\nContent-Type: application/json\r\nContent-Length: 5\r\n",
                    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    case 5:
      return post(R"({"prompt": "a", "temperature": "hot", "n": 1000000})");
    default:
      return http_request(plan_, "POST", "/v1/no-such-route", "{}");
  }
}

RequestMaker::Made RequestMaker::next() {
  Made made;
  const double which = share();
  made.output_tokens = length(plan_.output_tokens);
  const std::string text = body(made.output_tokens);
  if (which < plan_.vanishing) {
    made.manner = Manner::vanishing;
    made.last_event = draw(random_, 0, made.output_tokens / 2);
    made.resets = draw(random_, 0, 1) == 1;
  } else if (which < plan_.vanishing + plan_.slow) {
    made.manner = Manner::slow;
  } else if (which < plan_.vanishing + plan_.slow + plan_.rubbish) {
    made.manner = Manner::rubbish;
    made.bytes = rubbish();
    return made;
  }
  made.bytes = http_request(plan_, "POST", plan_.path, text);
  return made;
}

}  // namespace tensora::serve
