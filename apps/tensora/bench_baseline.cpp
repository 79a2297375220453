#include <map>

#include "bench_statistics.h"
#include "bench_suite.h"
#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

// Calls `visit(key, result)` for every framework of every test; the key says what was measured.
template <class Suite, class Visit>
void for_each_result(Suite& suite, const Visit& visit) {
  for (auto& comparison : suite.at("comparisons")) {
    const std::string model = comparison.at("model");
    for (auto& test : comparison.at("tests"))
      for (auto& result : test.at("results"))
        visit(concat(model, ", ", test.at("test").template get<std::string>(), ", ",
                     result.at("framework").template get<std::string>()),
              result);
  }
}

}  // namespace

Json parse_suite(const std::string& name, const std::string& text) {
  try {
    Json suite = Json::parse(text);
    check(suite.is_object() && suite.value("format", "") == "tensora-suite-1", name,
          ": expected what 'tensora bench --framework ... -o json' writes");
    for_each_result(suite, [](const std::string&, const Json& result) {
      result.at("samples_ts").get<std::vector<double>>();
      for (const char* number : {"median_ts", "low_ts", "high_ts", "ratio"})
        result.at(number).get<double>();
    });
    for (const Json& comparison : suite.at("comparisons"))
      for (const Json& framework : comparison.at("frameworks"))
        framework.at("status").get<std::string>();
    return suite;
  } catch (const Json::exception& error) {
    fail(name, ": expected what 'tensora bench --framework ... -o json' writes: ", error.what());
  }
}

bool compare_with_baseline(Json& result, const Json& baseline, double threshold) {
  std::map<std::string, std::vector<double>> before;
  for_each_result(baseline, [&](const std::string& key, const Json& one) {
    before[key] = one.at("samples_ts").get<std::vector<double>>();
  });
  Json compared = Json::array();
  bool fine = true;
  for_each_result(result, [&](const std::string& key, Json& one) {
    const auto found = before.find(key);
    if (found == before.end()) return;
    const auto now = one.at("samples_ts").get<std::vector<double>>();
    const Interval ratio = unpaired_ratio(now, found->second);
    const bool slower = ratio.value < 1 - threshold && ratio.high < 1;
    const bool faster = ratio.value > 1 + threshold && ratio.low > 1;
    fine = fine && !slower;
    compared.push_back({{"test", key},
                        {"baseline_ts", median_interval(found->second).value},
                        {"median_ts", median_interval(now).value},
                        {"ratio", ratio.value},
                        {"ratio_low", ratio.low},
                        {"ratio_high", ratio.high},
                        {"verdict", slower   ? "slower"
                                    : faster ? "faster"
                                             : "no difference"}});
  });
  check(!compared.empty(), "the baseline has no model, test and framework of this result");
  result["baseline"] = {{"time", baseline.value("time", "")},
                        {"threshold", threshold},
                        {"fine", fine},
                        {"tests", std::move(compared)}};
  return fine;
}

}  // namespace tensora::cli
