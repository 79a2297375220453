#include "bench_worker.h"

#include "tensora/base/check.h"

namespace tensora::cli {

using nlohmann::json;

BenchWorker::BenchWorker(std::string framework, double seconds)
    : framework_(std::move(framework)), seconds_(seconds), process_({"bench", "--worker"}) {}

json BenchWorker::ask(const char* what, json request) {
  request["do"] = what;
  std::string reason;
  try {
    process_.send(request.dump(-1, ' ', false, json::error_handler_t::replace));
    const json answer = json::parse(process_.receive(seconds_));
    if (!answer.contains("error")) return answer;
    reason = answer.at("error").get<std::string>();
  } catch (const ChildError& error) {
    reason = error.what();
  } catch (const json::exception& error) {
    reason = concat("its answer cannot be read: ", error.what());
  }
  throw ChildError(concat(what, ": ", reason));
}

json BenchWorker::load(const WorkerModel& model) {
  return ask("load_model", {{"framework", framework_},
                            {"path", model.path},
                            {"synthetic", model.synthetic},
                            {"type", model.type},
                            {"quantize", model.quantize},
                            {"device", model.device},
                            {"level", model.level},
                            {"cache_type", model.cache_type},
                            {"settings", model.settings},
                            {"threads", model.threads},
                            {"context", model.context}});
}

json BenchWorker::first_token(int64_t prompt) { return ask("first_token", {{"prompt", prompt}}); }

std::vector<int32_t> BenchWorker::continue_greedily(const std::vector<int32_t>& tokens,
                                                    int64_t count) {
  return ask("generate", {{"tokens", tokens}, {"count", count}})
      .at("tokens")
      .get<std::vector<int32_t>>();
}

void BenchWorker::write_logits(const std::vector<int32_t>& tokens, int64_t prompt,
                               const std::string& file) {
  ask("logits", {{"tokens", tokens}, {"prompt", prompt}, {"file", file}});
}

double BenchWorker::bandwidth(const std::string& device) {
  return ask("bandwidth", {{"device", device}}).at("bytes_per_second");
}

json BenchWorker::open(const llm::BenchTest& test, int64_t batch, int64_t steps_at_once) {
  return ask("open_sequences", {{"n_prompt", test.prompt},
                                {"n_gen", test.generate},
                                {"n_depth", test.depth},
                                {"n_sequences", test.sequences},
                                {"batch", batch},
                                {"steps_at_once", steps_at_once}});
}

double BenchWorker::repeat(llm::BenchSamples& samples) {
  const json answer = ask("forward", json::object());
  samples.total.push_back(answer.at("total"));
  samples.prompt.push_back(answer.at("prompt"));
  for (const auto& step : answer.at("steps")) samples.steps.push_back(step);
  return answer.at("processor");
}

json BenchWorker::close() { return ask("memory_usage", json::object()); }

void BenchWorker::finish() { ask("cleanup", json::object()); }

}  // namespace tensora::cli
