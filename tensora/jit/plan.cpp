#include "tensora/jit/plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "tensora/core/backend.h"
#include "tensora/jit/group_nodes.h"

namespace tensora::jit {
namespace {

// Less than allocators round sizes by is not counted as growth.
constexpr int64_t kPeakSlack = int64_t{64} << 10;
// How often a plan is changed where it takes too much memory, before it is changed everywhere.
constexpr int kMostChanges = 16;

uint32_t first_of(const Launch& launch) {
  return launch.nodes.empty() ? launch.again[0] : launch.nodes[0];
}

/// What a kernel is called with.
class KernelCall {
 public:
  KernelCall(Tape& tape, const PlannedKernel& kernel) {
    views_.reserve(kernel.inputs.size() + kernel.results.size());
    for (const auto* operands : {&kernel.inputs, &kernel.results})
      for (const PlannedOperand& operand : *operands) {
        View& view = views_.emplace_back(tape.placed(operand.operand));
        view.sizes = operand.sizes;
        view.strides = operand.strides;
        view.update();
        pointers_.push_back(&view);
      }
    for (int node : kernel.attrs)
      attrs_.push_back(node < 0 ? nullptr : tape.nodes()[static_cast<size_t>(node)].attrs.get());
    call = {.sizes = kernel.sizes,
            .row_dims = kernel.row_dims,
            .inputs = {pointers_.data(), kernel.inputs.size()},
            .results = {pointers_.data() + kernel.inputs.size(), kernel.results.size()},
            .attrs = {attrs_.data(), attrs_.size()}};
  }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  TileCall call;

 private:
  SmallVector<View, 8> views_;
  SmallVector<const View*, 16> pointers_;
  SmallVector<const void*, 16> attrs_;
};

void launch(Tape& tape, const Launch& step) {
  if (step.list.empty()) {
    step.kernel->tile.launch(KernelCall(tape, *step.kernel).call);
    return;
  }
  std::deque<KernelCall> calls;
  std::vector<std::pair<const PreparedTile*, TileCall>> list;
  const auto add = [&](const PlannedKernel& kernel) {
    list.emplace_back(&kernel.tile, calls.emplace_back(tape, kernel).call);
  };
  add(*step.kernel);
  for (const PlannedKernel& kernel : step.list) add(kernel);
  PreparedTile::launch_list(list);
}

// Launch number `failed` has thrown. The program called some nodes before the one that failed, in
// groups that are to run later: they run now, as they would have without groups.
void run_what_came_before(Tape& tape, const Plan& plan, size_t failed) {
  size_t next = failed;  // that is not there for its successor alone
  while (plan.launches[next].nodes.empty()) ++next;
  const uint32_t position = plan.launches[next].nodes.front();
  std::vector<uint32_t> missing;
  for (size_t i = failed + 1; i < plan.launches.size(); ++i)
    for (const std::vector<uint32_t>* nodes : {&plan.launches[i].nodes, &plan.launches[i].again})
      for (uint32_t node : *nodes)
        if (node < position) missing.push_back(node);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  for (uint32_t node : missing) tape.run(node);
}

// Limits that groups have to respect so that a plan takes less memory at some launches: no group
// waits for what runs there, or those that run there are taken apart. False if that was done
// before.
bool restrict(const Plan& plan, const std::vector<size_t>& launches, GroupLimits& limits) {
  bool changed = false;
  for (size_t launch : launches) {
    const uint32_t first = plan.launches[launch].nodes.front();
    changed |= !limits.barriers[first];
    limits.barriers[first] = true;
  }
  if (changed) return true;
  for (size_t launch : launches) {
    if (!plan.launches[launch].kernel) continue;
    for (uint32_t node : plan.launches[launch].nodes) {
      changed |= !limits.alone[node];
      limits.alone[node] = true;
    }
  }
  return changed;
}

// The plan after one more pass, if that changes it and takes no more memory.
template <class Pass>
void improve(const Tape& tape, Plan& plan, int64_t most, std::string_view name, Pass&& pass) {
  Plan better = plan;
  if (!pass(better)) return;
  if (is_dumped())
    better.history += concat("# kernels before ", name, "\n", to_string(plan, tape), "\n");
  Plan reusing = better;
  reuse_memory(tape, reusing);
  if (peak_of(tape, reusing).bytes <= most + kPeakSlack) plan = std::move(better);
}

// A plan that takes no more memory than `most`, unless there is none.
std::optional<Plan> plan_within(const Tape& tape, PlanOptions options, const Rewrite& rewrite,
                                int64_t most) {
  for (uint32_t reach : kReaches) {
    GroupLimits limits{.reach = reach, .barriers = {}, .alone = {}};
    for (int changes = 0; changes <= kMostChanges; ++changes) {
      const int64_t fuel = used_fuel();
      Plan plan = group_nodes(tape, options, rewrite, limits);
      const auto is_kernel = [](const Launch& launch) { return launch.kernel.has_value(); };
      if (std::any_of(plan.launches.begin(), plan.launches.end(), is_kernel)) {
        improve(tape, plan, most, "recompute_values",
                [&](Plan& better) { return recompute_values(tape, options, better); });
        improve(tape, plan, most, "list_kernels",
                [&](Plan& better) { return list_kernels(tape, better); });
      }
      reuse_memory(tape, plan);
      const MemoryPeak peak = peak_of(tape, plan, most + kPeakSlack);
      plan.peak = peak.bytes;
      plan.eager_peak = most;
      if (peak.above.empty()) return plan;
      give_back_fuel(fuel);  // a plan that is not used counts as none
      limits.barriers.resize(tape.size(), false);
      limits.alone.resize(tape.size(), false);
      if (!restrict(plan, peak.above, limits)) break;
    }
  }
  return {};
}

}  // namespace

Plan make_plan(Tape& tape, PlanOptions options, bool merges) {
  const int64_t eager_peak = peak_op_by_op(tape);
  const std::vector<int> unmerged = tape.memory_numbers();
  Rewrite rewrite;
  rewrite.left_out.assign(tape.size(), false);
  if (merges) merge_equal_nodes(tape, rewrite);
  for (const auto& [from, to] : rewrite.merges) tape.merge(from, to);
  leave_out_unused_nodes(tape, rewrite);
  if (std::optional<Plan> plan = plan_within(tape, options, rewrite, eager_peak)) {
    if (options.memory_budget > 0 && options.memory_budget < plan->peak) {
      const std::string before = is_dumped() ? to_string(*plan, tape) : std::string();
      if (keep_budget(tape, *plan, options.memory_budget) && is_dumped())
        plan->history += concat("# kernels before keep_budget\n", before, "\n");
      plan->peak = peak_of(tape, *plan).bytes;
    }
    return std::move(*plan);
  }
  tape.set_memory_numbers(unmerged);
  if (!rewrite.merges.empty()) return make_plan(tape, options, false);
  Plan plan = make_plain_plan(tape);
  plan.refusals.push_back({0, "every group would raise the peak of memory"});
  plan.peak = plan.eager_peak = eager_peak;
  return plan;
}

void run(Tape& tape, const Plan& plan, std::vector<double>* seconds) {
  size_t done = 0;
  try {
    for (const Launch& step : plan.launches) {
      const auto start = std::chrono::steady_clock::now();
      for (const auto& [to, from] : step.reuses) tape.take_memory(to, from);
      if (step.kernel)
        launch(tape, step);
      else
        tape.run(first_of(step));
      if (seconds) {
        synchronize(tape.nodes()[first_of(step)].device);
        seconds->push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      for (int memory : step.releases) tape.release(memory);
      for (int memory : step.drops) tape.drop(memory);
      ++done;
    }
  } catch (...) {
    run_what_came_before(tape, plan, done);
    throw;
  }
}

std::string to_string(const Plan& plan, const Tape& tape, std::span<const double> seconds,
                      std::span<const std::string> lines) {
  std::string text;
  const auto name = [&](uint32_t node) { return tape.nodes()[node].op->name; };
  const auto place = [&](uint32_t node) {
    return node < lines.size() && !lines[node].empty() ? concat(" at ", lines[node])
                                                       : std::string();
  };
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch& step = plan.launches[i];
    text += !step.list.empty()          ? "list"
            : !step.kernel              ? "op  "
            : step.kernel->row_dims > 0 ? "rows"
                                        : "walk";
    if (!step.list.empty()) text += concat(" of ", step.list.size() + 1);
    if (step.kernel) text += concat(" ", step.kernel->sizes);
    for (uint32_t node : step.nodes) text += concat(" ", name(node));
    for (uint32_t node : step.again)
      text += concat(step.again[0] == node ? " (again " : " ", name(node));
    if (!step.again.empty()) text += ")";
    text += concat(place(first_of(step)), ": ", step.bytes, " bytes");
    if (step.bytes != step.eager_bytes) text += concat(" instead of ", step.eager_bytes);
    if (i < seconds.size()) {
      const double microseconds = seconds[i] * 1e6;
      const double rate = static_cast<double>(step.bytes) / std::max(seconds[i], 1e-9) / 1e9;
      text += concat(", ", std::round(microseconds * 10) / 10, " us, ", std::round(rate * 10) / 10,
                     " GB/s");
    }
    text += "\n";
  }
  if (plan.eager_peak > 0)
    text +=
        concat("memory: at most ", plan.peak, " bytes at a time, op by op ", plan.eager_peak, "\n");
  if (plan.rewrite.equal > 0)
    text += concat("left out: ", plan.rewrite.equal, " ops that equal earlier ones\n");
  if (plan.rewrite.unused > 0)
    text += concat("left out: ", plan.rewrite.unused, " ops whose results nobody reads\n");
  for (const Refusal& refusal : plan.refusals)
    text +=
        concat("not fused: ", name(refusal.node), place(refusal.node), ": ", refusal.reason, "\n");
  for (const std::string& failure : plan.failures) text += concat("not fused: ", failure, "\n");
  return text;
}

}  // namespace tensora::jit
