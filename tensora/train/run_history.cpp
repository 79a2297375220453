#include "tensora/train/run_history.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tensora/base/check.h"

namespace tensora::train {
namespace {

using Json = nlohmann::ordered_json;

// The curves in the order in which their names first appear.
class Collector {
 public:
  void add(const Json& row) {
    const auto step = row.at("step").get<double>();
    for (const auto& [name, value] : row.items()) {
      if (name == "step" || name == "wall" || !(value.is_number() || value.is_null())) continue;
      const auto [found, fresh] = places_.emplace(name, curves.size());
      if (fresh) curves.push_back({name, {}, {}});
      Curve& curve = curves[found->second];
      curve.steps.push_back(step);
      curve.values.push_back(value.is_null() ? NAN : value.get<double>());
    }
  }
  std::vector<Curve> curves;

 private:
  std::map<std::string, size_t> places_;
};

}  // namespace

RunHistory read_run(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const fs::path source = folder ? fs::path(path) / "metrics.jsonl" : fs::path(path);
  std::ifstream file(source, std::ios::binary);
  check(file.good(), source.string(), ": cannot be opened: ", std::strerror(errno));
  Collector collector;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    try {
      collector.add(Json::parse(line));
    } catch (const Json::exception&) {
      if (file.eof()) break;  // the line has no end yet
      fail(source.string(), ":", number, ": expected a JSON object with a step");
    }
  }
  const fs::path named = fs::absolute(source).parent_path();
  const fs::path last = named.lexically_normal();
  return {(last.has_filename() ? last : last.parent_path()).filename().string(),
          std::move(collector.curves)};
}

}  // namespace tensora::train
