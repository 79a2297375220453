#include "tensora/distributed/scale_machine.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tensora/base/error_kinds.h"

namespace tensora::distributed {
namespace {

using Json = nlohmann::ordered_json;

// Every number of a machine with its name in a file.
template <class Machine, class Visit>
void visit_numbers(Machine& m, const Visit& visit) {
  visit("peak_flops", m.peak_flops);
  visit("memory_bytes", m.memory_bytes);
  visit("op_seconds", m.op_seconds);
  visit("call_seconds", m.call_seconds);
  visit("node_latency", m.node.latency);
  visit("node_bandwidth", m.node.bandwidth);
  visit("network_latency", m.network.latency);
  visit("network_bandwidth", m.network.bandwidth);
  visit("contention", m.contention);
  visit("jitter", m.jitter);
  visit("failures_per_rank_hour", m.failures_per_rank_hour);
  visit("checkpoint_seconds", m.checkpoint_seconds);
  visit("restart_seconds", m.restart_seconds);
  visit("rate_error", m.rate_error);
  visit("link_error", m.link_error);
}
template <class Machine, class Visit>
void visit_curves(Machine& m, const Visit& visit) {
  visit("products", m.products);
  visit("attention", m.attention);
  visit("memory", m.memory);
}

const Json& entry(const Json& json, const char* name) {
  const auto found = json.find(name);
  check(found != json.end(), "scale: the file of the machine has no '", name, "'");
  return *found;
}

double number(const Json& json, const char* name) {
  const Json& value = entry(json, name);
  check(value.is_number() && value.get<double>() >= 0, "scale: '", name,
        "' of the machine must be a number that is not negative, got ", value.dump());
  return value.get<double>();
}

RateCurve curve_of(const Json& json, const char* name) {
  const Json& rows = entry(json, name);
  RateCurve curve;
  const auto is_pair = [](const Json& row) {
    return row.is_array() && row.size() == 2 && row[0].is_number() && row[1].is_number() &&
           row[0].get<double>() > 0 && row[1].get<double>() > 0;
  };
  check(rows.is_array() && !rows.empty(), "scale: '", name,
        "' of the machine must be a list of [work, rate], got ", rows.dump());
  for (const Json& row : rows) {
    check(is_pair(row), "scale: '", name,
          "' of the machine must have pairs of positive numbers, got ", row.dump());
    curve.push_back({row[0].get<double>(), row[1].get<double>()});
    check(curve.size() < 2 || curve[curve.size() - 2].work < curve.back().work, "scale: '", name,
          "' of the machine must be ordered by work");
  }
  return curve;
}

// Products reach their rate from about 10^12 FLOP on; below that a GPU is not filled.
RateCurve product_curve(double peak, double share) {
  return {{1e8, 0.02 * peak},
          {1e9, 0.12 * peak},
          {1e10, 0.4 * peak},
          {1e11, 0.85 * share * peak},
          {1e12, share * peak}};
}

}  // namespace

double rate_at(const RateCurve& curve, double work) {
  ensure(!curve.empty(), "a machine has no rates");
  if (work <= curve.front().work) return curve.front().rate;
  for (size_t i = 1; i < curve.size(); ++i) {
    if (work > curve[i].work) continue;
    const RatePoint &a = curve[i - 1], &b = curve[i];
    const double share = std::log(work / a.work) / std::log(b.work / a.work);
    return a.rate * std::pow(b.rate / a.rate, share);
  }
  return curve.back().rate;
}

double collective_seconds(const ScaleMachine& m, CollectiveKind kind, double bytes,
                          GroupShape shape) {
  if (shape.ranks <= 1) return 0;
  const double n = shape.ranks;
  const double per_node = std::clamp(shape.per_node, 1, shape.ranks);
  const double nodes = std::ceil(n / per_node);
  const bool spread = nodes > 1;
  // Every rank of a node has a link of its own to the network, and rings use all of them.
  double bandwidth = per_node > 1 ? m.node.bandwidth : m.network.bandwidth;
  if (spread) bandwidth = std::min(bandwidth, m.network.bandwidth * per_node);
  if (kind == CollectiveKind::send || kind == CollectiveKind::recv) {
    const ScaleLink& link = spread ? m.network : m.node;
    return m.call_seconds + link.latency + bytes / link.bandwidth;
  }
  if (kind == CollectiveKind::all_to_all) {
    const double within = bytes * (per_node - 1) / n / m.node.bandwidth;
    const double beyond = spread ? bytes * (n - per_node) / n / m.network.bandwidth : 0;
    return m.call_seconds + (spread ? m.network : m.node).latency + std::max(within, beyond);
  }
  const double passes = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double moved = passes * bytes * (n - 1) / n;
  const double beyond = spread ? m.network.latency : 0;
  const double ring = passes * ((n - nodes) * m.node.latency + (nodes - 1) * beyond);
  const double tree =
      passes * ((per_node - 1) * m.node.latency + std::ceil(std::log2(nodes)) * beyond);
  // A tree has few steps and uses the links a little less well.
  constexpr double kTreeShare = 0.92;
  return m.call_seconds +
         std::min(ring + moved / bandwidth, tree + moved / (bandwidth * kTreeShare));
}

ScaleMachine ScaleMachine::preset(std::string_view name) {
  check_as<ValueError>(name == "h100" || name == "h200" || name == "a100",
                       "scale: there is no machine \"", name, "\"; there are h100, h200 and a100");
  const bool ampere = name == "a100";
  ScaleMachine m;
  m.name = name;
  m.peak_flops = ampere ? 312e12 : 989e12;
  m.memory_bytes = name == "h200" ? 141e9 : 80e9;
  const double bandwidth = ampere ? 2.0e12 : name == "h200" ? 4.8e12 : 3.35e12;
  m.products = product_curve(m.peak_flops, ampere ? 0.8 : 0.7);
  m.attention = product_curve(m.peak_flops, ampere ? 0.6 : 0.5);
  m.memory = {{1e5, 0.1 * bandwidth}, {1e7, 0.6 * bandwidth}, {1e8, 0.85 * bandwidth}};
  m.op_seconds = 3e-6;
  m.call_seconds = 8.4e-6;  // this and the latencies: NCCL's tuning table
  m.node = {.latency = 3.4e-6, .bandwidth = 0.8 * (ampere ? 300e9 : 450e9)};
  m.network = {.latency = 14e-6, .bandwidth = 0.6 * (ampere ? 25e9 : 50e9)};
  m.contention = 0.15;
  m.jitter = 0.01;
  m.failures_per_rank_hour = 1 / 50700.0;  // Llama 3 on 16,384 H100: 419 interruptions in 54 days
  return m;
}

std::string ScaleMachine::to_json() const {
  Json json = {{"name", name}, {"ranks_per_node", ranks_per_node}};
  visit_numbers(*this, [&](const char* key, double value) { json[key] = value; });
  visit_curves(*this, [&](const char* key, const RateCurve& curve) {
    Json rows = Json::array();
    for (const RatePoint& point : curve) rows.push_back({point.work, point.rate});
    json[key] = rows;
  });
  return json.dump(2) + "\n";
}

ScaleMachine ScaleMachine::from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  check(json.is_object(), "scale: the file of the machine is not a JSON object");
  ScaleMachine m;
  const Json& named = entry(json, "name");
  check(named.is_string(), "scale: 'name' of the machine must be text");
  m.name = named.get<std::string>();
  visit_numbers(m, [&](const char* key, double& value) { value = number(json, key); });
  visit_curves(m, [&](const char* key, RateCurve& curve) { curve = curve_of(json, key); });
  const double per_node = number(json, "ranks_per_node");
  check(per_node >= 1 && per_node <= 65536 && per_node == std::floor(per_node),
        "scale: 'ranks_per_node' of the machine must be a whole number from 1 to 65536, got ",
        per_node);
  m.ranks_per_node = static_cast<int>(per_node);
  check(m.node.bandwidth > 0 && m.network.bandwidth > 0 && m.peak_flops > 0,
        "scale: peak_flops, node_bandwidth and network_bandwidth of the machine must be positive");
  check(m.contention < 1 && m.rate_error < 1 && m.link_error < 1,
        "scale: contention, rate_error and link_error of the machine must be below 1");
  return m;
}

}  // namespace tensora::distributed
