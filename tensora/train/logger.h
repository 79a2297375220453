#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensora {
class Tensor;
}

namespace tensora::train {

/// Named numbers of one step: {{"loss", 1.25}, {"lr", 3e-4}}.
using Scalars = std::vector<std::pair<std::string, double>>;

/// Takes down what happens in a run. Steps do not decrease. What was taken down when a call returns
/// survives the death of the process.
class Logger {
 public:
  virtual ~Logger() = default;

  virtual void scalars(int64_t step, const Scalars& values) = 0;
  /// Text such as a sample of the model; ignored by formats that have no place for it.
  virtual void text(int64_t step, std::string_view tag, std::string_view text);
  /// The distribution of a tensor's elements; ignored by formats that have no place for it.
  virtual void histogram(int64_t step, std::string_view tag, const Tensor& values);
  /// Forgets all after `step`, and what a crash left unfinished: a run goes on from there.
  virtual void rewind(int64_t step) = 0;
};

/// Seconds since 1970.
double wall_seconds();

}  // namespace tensora::train
