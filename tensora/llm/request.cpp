#include "tensora/llm/request.h"

#include <nlohmann/json.hpp>

namespace tensora::llm {

std::string_view name(Overflow policy) {
  switch (policy) {
    case Overflow::refuse:
      return "refuse";
    case Overflow::truncate:
      return "truncate";
    case Overflow::shift:
      return "shift";
  }
  return "?";
}

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::deadline:
      return "deadline";
  }
  return "?";
}

double Completion::prompt_per_second() const {
  const double computed = static_cast<double>(usage.prompt_tokens - usage.cached_tokens);
  return timings.prompt > 0 ? computed / timings.prompt : 0;
}

double Completion::predicted_per_second() const {
  const double following = static_cast<double>(usage.completion_tokens - 1);
  return timings.predicted > 0 && following > 0 ? following / timings.predicted : 0;
}

double Completion::mean_token() const {
  const double rate = predicted_per_second();
  return rate > 0 ? 1 / rate : 0;
}

std::string Completion::to_json() const {
  const int64_t computed = usage.prompt_tokens - usage.cached_tokens;
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  nlohmann::ordered_json out;
  out["text"] = text;
  out["finish_reason"] = name(reason);
  if (!stop.empty()) out["stop"] = stop;
  out["context_full"] = context_full;
  out["seed"] = seed;
  auto& used = out["usage"];
  used["prompt_tokens"] = usage.prompt_tokens;
  used["completion_tokens"] = usage.completion_tokens;
  used["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  used["cached_tokens"] = usage.cached_tokens;
  used["prefix_broken_at"] = usage.prefix_broken_at
                                 ? nlohmann::ordered_json(*usage.prefix_broken_at)
                                 : nlohmann::ordered_json(nullptr);
  used["truncated_tokens"] = usage.truncated_tokens;
  used["shifted_tokens"] = usage.shifted_tokens;
  used["drafted_tokens"] = usage.drafted_tokens;
  used["accepted_tokens"] = usage.accepted_tokens;
  used["preemptions"] = usage.preemptions;
  auto& times = out["timings"];
  times["queue_ms"] = timings.queued * 1e3;
  times["first_token_ms"] = timings.first_token * 1e3;
  times["total_ms"] = timings.total * 1e3;
  times["cache_n"] = usage.cached_tokens;
  times["prompt_n"] = computed;
  times["prompt_ms"] = timings.prompt * 1e3;
  times["prompt_per_token_ms"] = ratio(timings.prompt * 1e3, static_cast<double>(computed));
  times["prompt_per_second"] = prompt_per_second();
  times["predicted_n"] = usage.completion_tokens;
  times["predicted_ms"] = timings.predicted * 1e3;
  times["predicted_per_token_ms"] = mean_token() * 1e3;
  times["predicted_per_second"] = predicted_per_second();
  times["min_token_ms"] = timings.min_token * 1e3;
  times["max_token_ms"] = timings.max_token * 1e3;
  // Bytes that are not UTF-8 cannot be in JSON.
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tensora::llm
