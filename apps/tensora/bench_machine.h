#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace tensora::cli {

/// The machine that a benchmark runs on, and its state meanwhile: clocks, temperature and power of
/// the GPU by NVIDIA's management library (where there is one), clocks and load of the CPU.
class Machine {
 public:
  /// `gpu` is the index of the GPU in use; below 0: none.
  explicit Machine(int gpu);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Takes down the state of this moment.
  void sample();
  /// Percent of the last moments that the GPU was in use by anybody; -1: unknown.
  int gpu_utilization() const;
  /// Bytes of the GPU's memory that are in use by anybody; 0: unknown.
  uint64_t gpu_memory_used() const;
  /// Names and versions, and of each state the least, the most and the mean.
  nlohmann::ordered_json to_json() const;

 private:
  class Gpu;
  std::unique_ptr<Gpu> gpu_;  // null without the library
  nlohmann::ordered_json states_;
};

/// What stands behind "name : " in a file such as /proc/cpuinfo; empty if nothing.
std::string line_behind(const std::string& path, const std::string& name);
/// UTC, as 2026-01-31T12:34:56Z.
std::string now_text();

}  // namespace tensora::cli
