#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensora::train {

/// One figure of a run over its steps.
struct Curve {
  std::string name;  // "loss/train"
  std::vector<double> steps, values;
};

/// What a run took down.
struct RunHistory {
  std::string name;  // of its folder
  std::vector<Curve> curves;
};

/// Reads metrics.jsonl of a run's folder, or a file of that format. A torn last line, which a run
/// that is being written may have, is ignored; any other line that is not a row is an error.
RunHistory read_run(const std::string& path);

}  // namespace tensora::train
