#pragma once

// What the rows of tensora-bench-ops share: their inputs, how they are timed, and the fingerprint
// of a result by which bench/ops.py compares it with PyTorch's.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "tensora/tensora.h"

namespace tensora::bench_ops {

inline Device place;  // where the ops run
inline std::string wanted;

/// n numbers that look random, in [0, 1): the fractions of multiples of the golden ratio.
inline Tensor fractions(int64_t n, double step = 0.6180339887498949) {
  const Tensor multiples = mul(arange(n, {.dtype = kFloat64}), step);
  return multiples - floor(multiples);
}
inline Tensor values(const Shape& sizes, DType dtype = kFloat32, double step = 0.6180339887498949) {
  return ((fractions(sizes.numel(), step) - 0.25) * 4).reshape(sizes).to(dtype).to(place);
}
inline Tensor indices(const Shape& sizes, int64_t below) {
  return floor(fractions(sizes.numel(), 0.7548776662466927) * double(below))
      .to(kInt64)
      .reshape(sizes)
      .to(place);
}

/// Milliseconds per call: groups of calls that end in a wait for the device.
inline double milliseconds(const std::function<Tensor()>& body) {
  const auto group = [&](int calls) {
    synchronize(place);
    const double begin = bench::now();
    for (int i = 0; i < calls; ++i) body();
    synchronize(place);
    return (bench::now() - begin) / calls * 1e3;
  };
  group(2);
  const int calls = std::clamp(static_cast<int>(20 / std::max(group(2), 1e-4)), 1, 2000);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) times.push_back(group(calls));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

inline void print_fingerprint(const Tensor& result) {
  // Of large results every nth element.
  const int64_t step = std::max<int64_t>(1, result.numel() >> 22);
  const Tensor flat =
      slice(result.detach().reshape({-1}), 0, 0, result.numel(), step).cpu().to(kFloat64);
  const double* data = flat.data_ptr<double>();
  double total = 0, size = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) total += data[i], size += std::abs(data[i]);
  std::printf("[%lld, %.17g, %.17g", static_cast<long long>(flat.numel()), total, size);
  for (int64_t i = 0; i < 64 && flat.numel() > 0; ++i)
    std::printf(", %.17g", data[i * (flat.numel() - 1) / 63]);
  std::printf("]");
}

inline void row(const std::string& name, const std::function<Tensor()>& body) {
  if (name.find(wanted) == std::string::npos) return;
  const Tensor result = body();
  std::printf("{\"name\": \"%s\", \"fingerprint\": ", name.c_str());
  print_fingerprint(result);
  std::printf(", \"ms\": %.6g}\n", milliseconds(body));
  std::fflush(stdout);
}

inline bool any_wanted(const std::string& prefix) {
  return wanted.empty() || wanted.find(prefix) == 0 || prefix.find(wanted) != std::string::npos ||
         wanted.find('.') == std::string::npos;
}

/// The rows of bench/ops_nn.cpp: softmax, norms, losses, convolutions, attention, sorting.
void network_rows();

}  // namespace tensora::bench_ops
