#include <algorithm>
#include <map>

#include "bench_statistics.h"
#include "bench_suite.h"
#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of models that have the same name, the path tells them apart.
std::string model_of(const Json& suite, const Json& comparison) {
  const auto has_name = [&](const Json& one) { return one.at("model") == comparison.at("model"); };
  const std::string name = comparison.at("model");
  if (std::ranges::count_if(suite.at("comparisons"), has_name) < 2) return name;
  return concat(name, " (", comparison.value("path", Json()).dump(), ")");
}

// Calls `visit(key, comparison, result)` for every framework of every test; the key says what was
// measured.
template <class Suite, class Visit>
void for_each_result(Suite& suite, const Visit& visit) {
  for (auto& comparison : suite.at("comparisons")) {
    const std::string model = model_of(suite, comparison);
    for (auto& test : comparison.at("tests"))
      for (auto& result : test.at("results"))
        visit(concat(model, ", ", test.at("test").template get<std::string>(), ", ",
                     result.at("framework").template get<std::string>()),
              comparison, result);
  }
}

// What has to be the same for two speeds to be comparable.
std::map<std::string, Json> conditions_of(const Json& comparison, const Json& result) {
  std::map<std::string, Json> found;
  const auto take = [&](const Json& from, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (from.contains(name)) found[name] = from.at(name);
  };
  take(comparison, {"threads", "cache_type", "batch"});
  for (const Json& framework : comparison.at("frameworks"))
    if (framework.contains("name") && framework.at("name") == result.at("framework"))
      take(framework, {"device", "level", "precision"});
  return found;
}

// Adds the conditions that differ, in sentences; those that only one of the two has are passed.
void add_differences(const std::map<std::string, Json>& before,
                     const std::map<std::string, Json>& now, const std::string& framework,
                     std::vector<std::string>& all) {
  for (const auto& [name, value] : before) {
    const auto found = now.find(name);
    if (found == now.end() || found->second == value) continue;
    const std::string text =
        concat(framework, ": ", name, " was ", value.dump(), " and is ", found->second.dump());
    if (std::ranges::find(all, text) == all.end()) all.push_back(text);
  }
}

}  // namespace

Json parse_suite(const std::string& name, const std::string& text) {
  try {
    Json suite = Json::parse(text);
    check(suite.is_object() && suite.value("format", "") == "tensora-suite-1", name,
          ": expected what 'tensora bench --framework ... -o json' writes");
    for_each_result(suite, [](const std::string&, const Json&, const Json& result) {
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

std::string compare_with_baseline(Json& result, const Json& baseline, double threshold,
                                  bool unfair) {
  struct Before {
    std::vector<double> speeds;
    std::map<std::string, Json> conditions;
  };
  std::map<std::string, Before> before;
  for_each_result(baseline, [&](const std::string& key, const Json& comparison, const Json& one) {
    before[key] = {one.at("samples_ts").get<std::vector<double>>(), conditions_of(comparison, one)};
  });
  Json compared = Json::array();
  std::vector<std::string> unequal;
  bool fine = true;
  for_each_result(result, [&](const std::string& key, const Json& comparison, Json& one) {
    const auto found = before.find(key);
    if (found == before.end()) return;
    add_differences(found->second.conditions, conditions_of(comparison, one), one.at("framework"),
                    unequal);
    const auto now = one.at("samples_ts").get<std::vector<double>>();
    const Interval ratio = unpaired_ratio(now, found->second.speeds);
    const bool slower = ratio.value < 1 - threshold && ratio.high < 1;
    const bool faster = ratio.value > 1 + threshold && ratio.low > 1;
    fine = fine && !slower;
    compared.push_back({{"test", key},
                        {"baseline_ts", median_interval(found->second.speeds).value},
                        {"median_ts", median_interval(now).value},
                        {"ratio", ratio.value},
                        {"ratio_low", ratio.low},
                        {"ratio_high", ratio.high},
                        {"verdict", slower   ? "slower"
                                    : faster ? "faster"
                                             : "no difference"}});
  });
  std::string failure;
  if (compared.empty())
    failure = "it has no model, test and framework of this result";
  else if (!unequal.empty() && !unfair)
    failure = "it was measured under other conditions, which --unfair allows: " + unequal.front() +
              (unequal.size() > 1 ? ", …" : "");
  else if (!fine)
    failure = "some tests became slower";
  result["baseline"] = {{"time", baseline.value("time", "")},
                        {"threshold", threshold},
                        {"fine", failure.empty()},
                        {"unfair", unequal},
                        {"tests", std::move(compared)}};
  return failure;
}

}  // namespace tensora::cli
