#include <algorithm>
#include <map>
#include <set>

#include "tensora/jit/group_nodes.h"
#include "tensora/jit/max_flow.h"

// Note [Store or recompute]
// A value that one kernel makes and a later one reads is stored, and loaded. The later kernel may
// instead compute it again, from values that are in memory anyway: the gradient of silu(a) * b
// reads a and b, so silu(a) need not be kept for it. Which values to load and which to compute is
// the cheapest cut of a network: from what is in memory, through the steps of earlier kernels, to
// what the kernel reads. A value's edge costs its bytes: those of the load, and of the store if no
// other kernel needs that. A step that runs again costs as much as a few bytes.
//
// Only pointwise ops, copies and filled tensors run again, and only while what they read is
// unchanged. Random numbers and reductions are stored.

namespace tensora::jit {
namespace {

// What a step costs per element, in bytes from the third-level cache; from memory a byte costs
// more. Measured with AVX-512: 60 GB/s and 15 GB/s for one thread, 0.3 ns for an exp.
constexpr int64_t kStepBytes = 2, kFunctionBytes = 18, kMemoryFactor = 4;
constexpr int64_t kCachedBytes = int64_t{8} << 20;
constexpr size_t kMostValues = 48;  // of one network
// Less is not worth a longer kernel.
constexpr int64_t kFewestPercent = 2;

class Recompute {
 public:
  Recompute(const Tape& tape, PlanOptions options, Plan& plan)
      : tape_(tape), options_(options), plan_(plan), launch_of_(tape.size(), kNone) {
    for (size_t l = 0; l < plan.launches.size(); ++l)
      for (uint32_t node : plan.launches[l].nodes) launch_of_[node] = static_cast<int>(l);
    for (const TapeNode& node : tape.nodes()) forms_.push_back(form_in_group(tape, node));
    writers_.resize(tape.memories().size());
    readers_.resize(tape.memories().size());
    for (uint32_t node = 0; node < tape.size(); ++node) {
      if (plan.rewrite.left_out[node]) continue;
      for (const Operand& output : tape.outputs(tape.nodes()[node]))
        writers_[at(output.memory)].push_back(node);
      for (const Operand& input : operands_of(node))
        if (input.memory >= 0) readers_[at(input.memory)].push_back(node);
    }
  }

  bool run() {
    for (int round = 0; round < 2; ++round)
      for (size_t l = 0; l < plan_.launches.size(); ++l)
        if (plan_.launches[l].again.empty()) improve(l);
    if (changed_.empty()) return false;
    for (const int launch : changed_) store_less(static_cast<size_t>(launch));
    std::erase_if(plan_.launches, [](const Launch& launch) { return launch.nodes.empty(); });
    finish_plan(tape_, plan_);
    return true;
  }

 private:
  static constexpr int kNone = -1;
  static size_t at(int memory) { return static_cast<size_t>(memory); }
  static bool has(const std::vector<uint32_t>& list, uint32_t node) {
    return std::find(list.begin(), list.end(), node) != list.end();
  }

  std::span<const Operand> operands_of(uint32_t node) const {
    return operands_read(tape_, tape_.nodes()[node], forms_[node]);
  }

  // The node that makes a value which may be computed again; kNone if there is none.
  int maker(int memory) const {
    if (!tape_.is_dead(memory) || writers_[at(memory)].size() != 1) return kNone;
    const uint32_t node = writers_[at(memory)][0];
    const OpForm::Kind kind = forms_[node].kind;
    const bool plain = kind == OpForm::Kind::pointwise || kind == OpForm::Kind::cast ||
                       kind == OpForm::Kind::number;
    return plain && launch_of_[node] != kNone ? static_cast<int>(node) : kNone;
  }
  // Whether a memory holds at a launch what it held when the node ran.
  bool is_unchanged(int memory, uint32_t node, size_t launch) const {
    return std::none_of(writers_[at(memory)].begin(), writers_[at(memory)].end(), [&](uint32_t w) {
      return w > node && launch_of_[w] <= static_cast<int>(launch);
    });
  }
  bool may_run_again(uint32_t node, size_t launch) const {
    if (launch_of_[node] >= static_cast<int>(launch)) return false;
    for (const Operand& operand : operands_of(node))
      if (operand.memory >= 0 && !is_unchanged(operand.memory, node, launch)) return false;
    return true;
  }
  bool reads_again(size_t launch, int memory) const {
    const Launch& reader = plan_.launches[launch];
    return std::any_of(reader.again.begin(), reader.again.end(), [&](uint32_t node) {
      return tape_.outputs(tape_.nodes()[node])[0].memory == memory;
    });
  }
  // Whether anybody loads a memory, other than one launch.
  bool is_needed(int memory, int except) const {
    if (!tape_.is_dead(memory)) return true;
    const int made_by = launch_of_[writers_[at(memory)].front()];
    const auto loads = [&](int launch) {
      return launch != kNone && launch != made_by && launch != except &&
             !reads_again(static_cast<size_t>(launch), memory);
    };
    for (uint32_t node : readers_[at(memory)])
      if (loads(launch_of_[node])) return true;
    // For a step that runs again.
    for (size_t l = 0; l < plan_.launches.size(); ++l)
      for (uint32_t node : plan_.launches[l].again)
        for (const Operand& operand : operands_of(node))
          if (operand.memory == memory && loads(static_cast<int>(l))) return true;
    return false;
  }
  // Whether a memory holds, when a launch begins, what the nodes before it wrote: a kernel that
  // alone reads what it writes does not store it.
  bool is_stored(int memory, size_t launch) const {
    if (!tape_.is_dead(memory)) return true;
    int last = kNone;
    for (uint32_t writer : writers_[at(memory)])
      if (launch_of_[writer] < static_cast<int>(launch)) last = launch_of_[writer];
    if (last == kNone || !plan_.launches[static_cast<size_t>(last)].kernel) return true;
    const PlannedKernel& kernel = *plan_.launches[static_cast<size_t>(last)].kernel;
    return std::any_of(kernel.results.begin(), kernel.results.end(), [&](const auto& result) {
      return tape_.operand(result.operand).memory == memory;
    });
  }

  static int64_t weighed(int64_t bytes, int64_t array) {
    return array < kCachedBytes ? bytes : bytes * kMemoryFactor;
  }
  int64_t cost_of_step(uint32_t node) const {
    if (forms_[node].kind == OpForm::Kind::number) return 0;
    const Operand& output = tape_.outputs(tape_.nodes()[node])[0];
    // Functions such as exp have one operand; so have some cheap ops.
    const bool simple = forms_[node].kind == OpForm::Kind::cast || tape_.nodes()[node].inputs > 1 ||
                        !output.view.device.is_cpu();
    return (simple ? kStepBytes : kFunctionBytes) * output.view.numel;
  }

  /// A value in the network of one launch.
  struct Value {
    int memory;
    int maker;  // kNone: it is loaded
    int in = 0, out = 0;
  };

  // What a launch loads that others made, and what that can be computed from.
  std::vector<Value> values_of(size_t launch, std::set<int>& wanted) const {
    std::vector<Value> values;
    std::set<int> seen;
    const auto visit = [&](const Operand& operand, bool wants) {
      if (operand.memory < 0) return;
      if (wants) wanted.insert(operand.memory);
      if (!seen.insert(operand.memory).second) return;
      const int node = maker(operand.memory);
      const bool again = node != kNone && may_run_again(static_cast<uint32_t>(node), launch);
      values.push_back({operand.memory, again ? node : kNone});
    };
    const Launch& reader = plan_.launches[launch];
    for (uint32_t node : reader.nodes)
      for (const Operand& operand : operands_of(node)) {
        if (operand.memory < 0) continue;
        const auto& writers = writers_[at(operand.memory)];
        const bool own = std::any_of(writers.begin(), writers.end(), [&](uint32_t writer) {
          return writer < node && has(reader.nodes, writer);
        });
        if (!own) visit(operand, true);
      }
    for (size_t i = 0; i < values.size() && values.size() < kMostValues; ++i)
      if (values[i].maker != kNone)
        for (const Operand& operand : operands_of(static_cast<uint32_t>(values[i].maker)))
          visit(operand, false);
    for (Value& value : values) {  // those whose operands were not visited
      if (value.maker == kNone) continue;
      for (const Operand& operand : operands_of(static_cast<uint32_t>(value.maker)))
        if (operand.memory >= 0 && !seen.contains(operand.memory)) value.maker = kNone;
    }
    return values;
  }

  int64_t cost_of_load(const Value& value, size_t launch) const {
    const Memory& memory = tape_.memories()[at(value.memory)];
    const auto bytes = static_cast<int64_t>(memory.storage->bytes());
    if (!is_stored(value.memory, launch)) return FlowNetwork::kUnlimited;
    if (value.maker == kNone) return weighed(bytes, bytes);
    const bool stored = is_needed(value.memory, static_cast<int>(launch));
    return weighed(stored ? bytes : 2 * bytes, bytes);
  }

  // Whether more steps can be part of a launch.
  bool can_grow(const Launch& launch) const {
    const OpForm::Kind kind = forms_[launch.nodes[0]].kind;
    return launch.kernel || kind == OpForm::Kind::pointwise || kind == OpForm::Kind::cast;
  }

  void improve(size_t launch) {
    if (!can_grow(plan_.launches[launch])) return;
    std::set<int> wanted;
    std::vector<Value> values = values_of(launch, wanted);
    if (std::none_of(values.begin(), values.end(),
                     [&](const Value& v) { return v.maker != kNone && wanted.contains(v.memory); }))
      return;
    FlowNetwork network;
    const int source = network.add_node(), sink = network.add_node();
    std::map<int, size_t> number;
    int64_t as_it_is = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      Value& value = values[i];
      number[value.memory] = i;
      value.in = network.add_node();
      value.out = network.add_node();
      const int64_t load = cost_of_load(value, launch);
      network.add_edge(value.in, value.out, load);
      if (!wanted.contains(value.memory)) continue;
      network.add_edge(value.out, sink, FlowNetwork::kUnlimited);
      as_it_is += load;
    }
    for (const Value& value : values) {
      if (value.maker == kNone) {
        network.add_edge(source, value.in, FlowNetwork::kUnlimited);
        continue;
      }
      const auto node = static_cast<uint32_t>(value.maker);
      network.add_edge(source, value.in, cost_of_step(node));
      for (const Operand& operand : operands_of(node))
        if (operand.memory >= 0)
          network.add_edge(values[number[operand.memory]].out, value.in, FlowNetwork::kUnlimited);
    }
    const int64_t cheapest = network.flow(source, sink);
    if (as_it_is - cheapest < as_it_is * kFewestPercent / 100 + 1) return;
    const std::vector<bool> side = network.source_side(source);
    std::vector<uint32_t> again;
    std::vector<int> open(wanted.begin(), wanted.end());
    std::set<int> seen(wanted);
    while (!open.empty()) {
      const Value& value = values[number[open.back()]];
      open.pop_back();
      if (value.maker == kNone || side[static_cast<size_t>(value.in)]) continue;
      again.push_back(static_cast<uint32_t>(value.maker));
      for (const Operand& operand : operands_of(static_cast<uint32_t>(value.maker)))
        if (operand.memory >= 0 && seen.insert(operand.memory).second)
          open.push_back(operand.memory);
    }
    if (!again.empty()) change(launch, std::move(again));
  }

  // Which memories of a launch anybody loads.
  std::vector<bool> stored(size_t launch) const {
    std::vector<bool> result(writers_.size(), false);
    for (uint32_t node : plan_.launches[launch].nodes)
      for (const Operand& output : tape_.outputs(tape_.nodes()[node])) {
        const auto reads_later = [&](uint32_t other) {
          return other > node && launch_of_[other] != kNone &&
                 launch_of_[other] != static_cast<int>(launch);
        };
        const auto& readers = readers_[at(output.memory)];
        result[at(output.memory)] =
            writers_[at(output.memory)].size() == 1
                ? is_needed(output.memory, kNone)
                : !tape_.is_dead(output.memory) ||
                      std::any_of(readers.begin(), readers.end(), reads_later);
      }
    return result;
  }

  // The kernel of a launch with the nodes that run again; nothing if they do not fit together.
  std::optional<PlannedKernel> kernel_of(const Launch& launch, const std::vector<bool>& stores,
                                         bool checks_price) const {
    const TapeNode& first = tape_.nodes()[launch.nodes[0]];
    OpenGroup group(tape_, first.device, options_.fuse);
    if (launch.kernel)
      group.fix_space(launch.kernel->sizes);
    else
      group.fix_space(tape_.outputs(first)[0].view.sizes);
    std::vector<uint32_t> all = launch.nodes;
    all.insert(all.end(), launch.again.begin(), launch.again.end());
    std::sort(all.begin(), all.end());
    for (uint32_t node : all) {
      const bool again = has(launch.again, node);
      const std::string reason =
          again ? group.add_again(node, forms_[node]) : group.add(node, forms_[node]);
      if (!reason.empty()) return {};
    }
    if (checks_price && !group.loses().empty()) return {};
    try {
      return group.finish(stores, options_.wide);
    } catch (const Error&) {
      return {};
    }
  }

  void change(size_t index, std::vector<uint32_t> again) {
    Launch& launch = plan_.launches[index];
    launch.again = std::move(again);
    std::optional<PlannedKernel> kernel = kernel_of(launch, stored(index), true);
    if (!kernel) {
      launch.again.clear();
      return;
    }
    launch.kernel = std::move(kernel);
    count_bytes(tape_, launch);
    for (uint32_t node : launch.again) changed_.insert(launch_of_[node]);
  }

  // After steps of a launch run again elsewhere.
  void store_less(size_t index) {
    Launch& launch = plan_.launches[index];
    const std::vector<bool> stores = stored(index);
    bool any = false;
    for (uint32_t node : launch.nodes)
      for (const Operand& output : tape_.outputs(tape_.nodes()[node]))
        any |= stores[at(output.memory)];
    if (!any) {
      launch.nodes.clear();  // all of it runs elsewhere
      launch.again.clear();
      return;
    }
    if (!launch.kernel) return;
    std::optional<PlannedKernel> kernel = kernel_of(launch, stores, false);
    if (!kernel) return;
    launch.kernel = std::move(kernel);
    count_bytes(tape_, launch);
  }

  const Tape& tape_;
  const PlanOptions options_;
  Plan& plan_;
  std::vector<int> launch_of_;                            // per node; kNone: it is left out
  std::vector<OpForm> forms_;                             // per node
  std::vector<std::vector<uint32_t>> writers_, readers_;  // per memory: nodes
  std::set<int> changed_;                                 // launches of which steps run again
};

}  // namespace

bool recompute_values(const Tape& tape, PlanOptions options, Plan& plan) {
  return Recompute(tape, options, plan).run();
}

}  // namespace tensora::jit
