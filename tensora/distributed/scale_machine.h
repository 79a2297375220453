#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// What a device achieves on work of some size; between the points it is interpolated on
/// logarithmic axes, beyond them it is that of the nearest point.
struct RatePoint {
  double work;  // FLOP of a product, bytes of an op bound by memory
  double rate;  // per second
};
using RateCurve = std::vector<RatePoint>;
double rate_at(const RateCurve& curve, double work);

/// A kind of link. A message of b bytes takes latency + b / bandwidth.
struct ScaleLink {
  double latency = 0;    // seconds of one step of a collective
  double bandwidth = 0;  // bytes per second of one rank, in one direction
};

/// Devices and links as a prediction knows them. Presets have published figures times an
/// efficiency; `measure_machine` measures the one it runs on.
struct ScaleMachine {
  std::string name;
  int ranks_per_node = 8;
  double peak_flops = 0;    // per second, of which MFU is a share
  double memory_bytes = 0;  // of one rank
  RateCurve products;       // FLOP per second of matrix products by their FLOP
  RateCurve attention;      // FLOP per second of attention by its FLOP
  RateCurve memory;         // bytes per second of all other ops by their bytes
  double op_seconds = 0;    // the least time of an op
  double call_seconds = 0;  // the least time of a collective
  ScaleLink node, network;  // between ranks of one node, and between nodes
  /// The share of its speed that computation loses while a collective runs.
  double contention = 0;
  /// Standard deviation of a rank's time for a step, as a share of it. All wait for the slowest.
  double jitter = 0;
  double failures_per_rank_hour = 0;
  double checkpoint_seconds = 20, restart_seconds = 180;
  /// How far rates and bandwidths may be from the truth, as shares; they make the intervals.
  double rate_error = 0.1, link_error = 0.3;

  std::string to_json() const;
  /// Names the entry that is missing or wrong.
  static ScaleMachine from_json(const std::string& text);
  /// "h100", "h200" or "a100": eight SXM GPUs to a node, with an InfiniBand link each.
  static ScaleMachine preset(std::string_view name);
};

/// The ranks of a group as links see them.
struct GroupShape {
  int ranks = 1;
  int per_node = 1;  // of its ranks that share a node
};

/// The seconds of a collective in which the largest tensor of a rank (what all_gather makes,
/// reduce_scatter takes) has so many bytes.
double collective_seconds(const ScaleMachine& machine, CollectiveKind kind, double bytes,
                          GroupShape shape);

/// Measures products, attention and memory on the CPU with the threads there are, and all_reduce
/// over the world, of which all ranks call it. Takes a few seconds.
ScaleMachine measure_machine(ProcessGroup& world);

}  // namespace tensora::distributed
