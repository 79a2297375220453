#include <cmath>
#include <cstdio>
#include <map>

#include "bench_record.h"
#include "files.h"
#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

// What makes two records the same test.
using Key = std::string;
using Records = std::map<Key, std::vector<double>>;

Records records_of(const std::string& path, const std::string& text) {
  Records out;
  const auto take = [&](const nlohmann::json& record) {
    const auto number = [&](const char* name) { return record.value(name, int64_t{0}); };
    llm::BenchTest test{.prompt = number("n_prompt"),
                        .generate = number("n_gen"),
                        .depth = number("n_depth"),
                        .sequences = record.value("n_sequences", int64_t{1})};
    const Key key = concat(record.at("model_type").get<std::string>(), ", ", test.name());
    auto& samples = out[key];
    for (const auto& speed : record.at("samples_ts")) samples.push_back(speed.get<double>());
  };
  try {
    if (!text.empty() && text[0] == '[') {
      for (const auto& record : nlohmann::json::parse(text)) take(record);
    } else {
      size_t begin = 0;
      while (begin < text.size()) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        if (end > begin) take(nlohmann::json::parse(text.substr(begin, end - begin)));
        begin = end + 1;
      }
    }
  } catch (const nlohmann::json::exception& error) {
    fail(path, ": expected what 'tensora bench --output json' writes: ", error.what());
  }
  check(!out.empty(), path, ": there are no records in it");
  return out;
}

// The value that Student's t exceeds with a probability of 2.5 % on either side.
double critical_t(double freedom) {
  const double table[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  if (freedom < 1) return table[0];
  if (freedom <= 10) return table[static_cast<int>(freedom) - 1];
  return 1.96 + 2.4 / freedom;
}

// Welch's test: whether two means differ by more than their spreads explain.
bool differ(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || b.size() < 2) return false;
  const llm::Spread x = llm::spread_of(a), y = llm::spread_of(b);
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double u = x.deviation * x.deviation / n, v = y.deviation * y.deviation / m;
  if (u + v == 0) return x.mean != y.mean;
  const double freedom = (u + v) * (u + v) / (u * u / (n - 1) + v * v / (m - 1));
  return std::abs(x.mean - y.mean) / std::sqrt(u + v) > critical_t(freedom);
}

}  // namespace

bool compare_records(const std::string& before, const std::string& after, std::string& out) {
  return compare_record_texts(before, read_file(before), after, read_file(after), out);
}

bool compare_record_texts(const std::string& before, const std::string& old_text,
                          const std::string& after, const std::string& new_text, std::string& out) {
  const Records old_ones = records_of(before, old_text), new_ones = records_of(after, new_text);
  int faster = 0, slower = 0, same = 0, alone = 0;
  for (const auto& [key, samples] : new_ones) {
    const auto found = old_ones.find(key);
    if (found == old_ones.end()) {
      ++alone;
      continue;
    }
    const double from = llm::spread_of(found->second).mean, to = llm::spread_of(samples).mean;
    const bool is_certain = differ(found->second, samples);
    const char* verdict = !is_certain ? "no difference" : to > from ? "faster" : "slower";
    ++(!is_certain ? same : to > from ? faster : slower);
    char line[512];
    std::snprintf(line, sizeof(line), "%-44s %12.2f -> %12.2f t/s  %+7.1f %%  %s\n", key.c_str(),
                  from, to, 100 * (to / from - 1), verdict);
    out += line;
  }
  for (const auto& [key, samples] : old_ones) alone += !new_ones.contains(key);
  check(faster + slower + same > 0, before, " and ", after, " have no test in common");
  out += concat("verdict: ", faster, " faster, ", slower, " slower, ", same,
                " without a difference beyond chance (95 %)");
  if (alone > 0) out += concat("; ", alone, " only in one of the files");
  out += "\n";
  return slower == 0;
}

}  // namespace tensora::cli
