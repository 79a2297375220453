#include "tensora/jit/group_nodes.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <limits>

#include "tensora/base/settings.h"

// Note [Groups]
// The nodes of a tape are visited in program order, and several groups are open at a time. A node
// joins the group that makes one of its operands, or else one that reads the same memory, if their
// index spaces agree; groups that meet in a node become one. A group runs where it is closed, that
// is, later than its first nodes were called. Therefore it is closed before a node outside it
//   - reads what the group writes,
//   - writes what the group reads or writes.
// So no open group depends on another one, every group may be extended at any time, and the order
// in which groups are closed respects all dependencies. Results that only the group itself reads
// are never stored. A group never computes anything twice, so joining one saves memory traffic and
// launches and costs registers alone; the number of steps and inputs is limited for their sake.

namespace tensora::jit {
namespace {

// TENSORA_JIT_FUEL=n: only the first n groups of the process are fused, to find the one that
// changes a result. The last of them is named.
std::atomic<int64_t>& fuel_used() {
  static std::atomic<int64_t> used{0};
  return used;
}
bool has_fuel(const Tape& tape, const OpenGroup& group) {
  static const int64_t limit =
      number_setting("TENSORA_JIT_FUEL", 0, std::numeric_limits<int64_t>::max(), -1);
  if (limit < 0) return true;
  const int64_t number = fuel_used().fetch_add(1, std::memory_order_relaxed) + 1;
  if (number == limit) {
    std::string text = concat("jit: group ", number, ", the last that is fused:");
    for (uint32_t node : group.nodes()) text += concat(" ", tape.nodes()[node].op->name);
    std::cerr << text << " of " << to_string(group.space()) << "\n";
  }
  return number <= limit;
}

class Planner {
 public:
  Planner(const Tape& tape, PlanOptions options, Rewrite rewrite, GroupLimits limits = {})
      : tape_(tape),
        options_(options),
        limits_(std::move(limits)),
        writers_(tape.memories().size(), kNone),
        readers_(tape.memories().size()) {
    plan_.rewrite = std::move(rewrite);
    plan_.rewrite.left_out.resize(tape.size(), false);
    for (const TapeNode& node : tape.nodes()) forms_.push_back(form_in_group(tape, node));
    find_readers();
  }

  Plan run() {
    for (uint32_t node = 0; node < tape_.size(); ++node) {
      if (!limits_.barriers.empty() && limits_.barriers[node])
        close_all();
      else
        close_distant(node);
      if (!plan_.rewrite.left_out[node]) add(node);
    }
    close_all();
    finish_plan(tape_, plan_);
    return std::move(plan_);
  }

  Plan run_alone() {
    for (uint32_t node = 0; node < tape_.size(); ++node) emit_alone(node);
    finish_plan(tape_, plan_);
    return std::move(plan_);
  }

 private:
  static constexpr int kNone = -1;

  // Who reads each memory, to see which results leave their group.
  void find_readers() {
    reading_nodes_.resize(tape_.memories().size());
    for (uint32_t i = 0; i < tape_.size(); ++i)
      for (const Operand& operand : operands_of(i))
        if (operand.memory >= 0 && !plan_.rewrite.left_out[i])
          reading_nodes_[static_cast<size_t>(operand.memory)].push_back(i);
  }

  std::span<const Operand> operands_of(uint32_t index) const {
    return operands_read(tape_, tape_.nodes()[index], forms_[index]);
  }

  void add(uint32_t index) {
    const TapeNode& node = tape_.nodes()[index];
    const OpForm& form = forms_[index];
    if (form.kind == OpForm::Kind::none) return run_alone(index);
    if (!limits_.alone.empty() && limits_.alone[index]) {
      plan_.refusals.push_back({index, "its group would raise the peak of memory"});
      return run_alone(index);
    }
    int target = joined(index);
    if (target == kNone) target = sibling(index, form);
    for (const Operand& output : tape_.outputs(node)) close_users(output.memory, target);
    if (target != kNone) {
      const std::string reason = groups_[static_cast<size_t>(target)].add(index, form);
      if (reason.empty()) return note_memories(index, target);
      plan_.refusals.push_back({index, reason});
      close_conflicting(index, target);
    }
    OpenGroup group(tape_, node.device, options_.fuse);
    if (const std::string reason = group.add(index, form); !reason.empty()) {
      plan_.refusals.push_back({index, reason});
      return run_alone(index);
    }
    groups_.push_back(std::move(group));
    open_.push_back(true);
    note_memories(index, static_cast<int>(groups_.size()) - 1);
  }

  // The group that makes an operand; if several do, they become one where that is possible.
  int joined(uint32_t index) {
    int target = kNone;
    for (const Operand& operand : operands_of(index)) {
      if (operand.memory < 0) continue;
      const int group = writers_[static_cast<size_t>(operand.memory)];
      if (group == kNone || group == target) continue;
      if (target == kNone)
        target = group;
      else if (groups_[static_cast<size_t>(target)].can_take(groups_[static_cast<size_t>(group)]))
        merge(target, group);
      else
        close(group);
    }
    return target;
  }

  // An open group of the same space that reads one of the node's operands.
  int sibling(uint32_t index, const OpForm& form) const {
    const TapeNode& node = tape_.nodes()[index];
    const bool of_input = form.kind == OpForm::Kind::columns;
    const Shape& sizes =
        of_input ? tape_.inputs(node)[0].view.sizes : tape_.outputs(node)[0].view.sizes;
    for (const Operand& operand : operands_of(index)) {
      if (operand.memory < 0 || operand.view.sizes != sizes) continue;
      for (int group : readers_[static_cast<size_t>(operand.memory)])
        if (open_[static_cast<size_t>(group)] &&
            groups_[static_cast<size_t>(group)].space() == sizes)
          return group;
    }
    return kNone;
  }

  void merge(int target, int group) {
    groups_[static_cast<size_t>(target)].take(groups_[static_cast<size_t>(group)]);
    open_[static_cast<size_t>(group)] = false;
    for (int& writer : writers_)
      if (writer == group) writer = target;
    for (std::vector<int>& readers : readers_)
      if (std::find(readers.begin(), readers.end(), group) != readers.end())
        readers.push_back(target);
  }

  void note_memories(uint32_t index, int group) {
    const TapeNode& node = tape_.nodes()[index];
    for (const Operand& operand : tape_.inputs(node))
      if (operand.memory >= 0) readers_[static_cast<size_t>(operand.memory)].push_back(group);
    for (const Operand& output : tape_.outputs(node))
      writers_[static_cast<size_t>(output.memory)] = group;
  }

  // Closes the groups, except one, that read or write a memory.
  void close_users(int memory, int except) {
    const auto index = static_cast<size_t>(memory);
    const int writer = writers_[index];
    if (writer != kNone && writer != except) close(writer);
    const std::vector<int> readers = readers_[index];
    for (int group : readers)
      if (group != except) close(group);
  }

  // The node does not join `group`: where it depends on the group, that has to run before.
  void close_conflicting(uint32_t index, int group) {
    const TapeNode& node = tape_.nodes()[index];
    const OpenGroup& open = groups_[static_cast<size_t>(group)];
    bool conflicts = false;
    for (const Operand& operand : tape_.inputs(node))
      conflicts |= operand.memory >= 0 && open.writes(operand.memory);
    for (const Operand& output : tape_.outputs(node))
      conflicts |= open.writes(output.memory) || open.reads(output.memory);
    if (conflicts) close(group);
  }

  void run_alone(uint32_t index) {
    const TapeNode& node = tape_.nodes()[index];
    for (const Operand& operand : tape_.inputs(node))
      if (operand.memory >= 0 && writers_[static_cast<size_t>(operand.memory)] != kNone)
        close(writers_[static_cast<size_t>(operand.memory)]);
    for (const Operand& output : tape_.outputs(node)) close_users(output.memory, kNone);
    emit_alone(index);
  }

  void close_all() {
    for (size_t g = first_open_; g < groups_.size(); ++g) close(static_cast<int>(g));
  }

  void close_distant(uint32_t index) {
    while (first_open_ < groups_.size() && !open_[first_open_]) ++first_open_;
    for (size_t g = first_open_; g < groups_.size(); ++g)
      if (open_[g] && groups_[g].nodes().back() + limits_.reach < index) close(static_cast<int>(g));
  }

  // A memory is stored if anybody outside the group may read it later.
  std::vector<bool> stored(const OpenGroup& group) const {
    std::vector<bool> result(reading_nodes_.size(), true);
    const std::vector<uint32_t>& nodes = group.nodes();
    for (uint32_t node : nodes)
      for (const Operand& output : tape_.outputs(tape_.nodes()[node])) {
        const auto memory = static_cast<size_t>(output.memory);
        const auto is_later = [&](uint32_t other) {
          return other > node && !std::binary_search(nodes.begin(), nodes.end(), other);
        };
        const std::vector<uint32_t>& readers = reading_nodes_[memory];
        result[memory] =
            !tape_.is_dead(output.memory) || std::any_of(readers.begin(), readers.end(), is_later);
      }
    return result;
  }

  bool writes_any(const OpenGroup& group, const std::vector<bool>& is_stored) const {
    for (uint32_t node : group.nodes())
      for (const Operand& output : tape_.outputs(tape_.nodes()[node]))
        if (is_stored[static_cast<size_t>(output.memory)]) return true;
    return false;
  }

  void close(int number) {
    const auto index = static_cast<size_t>(number);
    if (!open_[index]) return;
    open_[index] = false;
    const OpenGroup& group = groups_[index];
    for (uint32_t node : group.nodes())
      for (const Operand& output : tape_.outputs(tape_.nodes()[node]))
        if (writers_[static_cast<size_t>(output.memory)] == number)
          writers_[static_cast<size_t>(output.memory)] = kNone;
    emit(group);
  }

  void emit(const OpenGroup& group) {
    const std::vector<bool> is_stored = stored(group);
    if (!writes_any(group, is_stored)) return;  // nobody will see what it computes
    if (group.has_too_many_results(is_stored)) return emit_halves(group);
    const std::string loss = group.nodes().size() > 1 ? group.loses() : "";
    if (!loss.empty()) plan_.refusals.push_back({group.nodes().front(), loss});
    if (group.nodes().size() > 1 && loss.empty() && has_fuel(tape_, group)) {
      try {
        emit({.nodes = group.nodes(),
              .kernel = group.finish(is_stored, options_.wide),
              .releases = {}});
        return;
      } catch (const Error& error) {
        plan_.failures.emplace_back(error.what());
      }
    }
    for (uint32_t node : group.nodes()) emit_alone(node);
  }

  // The first and the last nodes of a group, each as one group or, where that is not possible,
  // more.
  void emit_halves(const OpenGroup& group) {
    const std::vector<uint32_t>& nodes = group.nodes();
    OpenGroup part(tape_, group.device(), options_.fuse);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const OpForm& form = forms_[nodes[i]];
      if (i != nodes.size() / 2 && part.add(nodes[i], form).empty()) continue;
      emit(std::exchange(part, OpenGroup(tape_, group.device(), options_.fuse)));
      if (!part.add(nodes[i], form).empty()) emit_alone(nodes[i]);
    }
    emit(part);
  }

  void emit_alone(uint32_t node) { emit({.nodes = {node}, .kernel = {}, .releases = {}}); }

  void emit(Launch launch) {
    count_bytes(tape_, launch);
    plan_.launches.push_back(std::move(launch));
  }

  const Tape& tape_;
  const PlanOptions options_;
  const GroupLimits limits_;
  std::vector<OpForm> forms_;                         // per node
  std::vector<int> writers_;                          // per memory the open group that writes it
  std::vector<std::vector<int>> readers_;             // and the groups, open or not, that read it
  std::vector<std::vector<uint32_t>> reading_nodes_;  // per memory
  std::vector<OpenGroup> groups_;
  std::vector<bool> open_;
  size_t first_open_ = 0;
  Plan plan_;
};

void note_releases(const Tape& tape, Plan& plan) {
  std::vector<bool> seen(tape.memories().size(), false);
  for (auto launch = plan.launches.rbegin(); launch != plan.launches.rend(); ++launch) {
    launch->releases.clear();
    for (const std::vector<uint32_t>* nodes : {&launch->nodes, &launch->again})
      for (uint32_t index : *nodes) {
        const TapeNode& node = tape.nodes()[index];
        for (uint32_t i = 0; i < node.inputs + node.outputs; ++i) {
          const int memory = tape.operand(node.first + i).memory;
          if (memory < 0 || seen[static_cast<size_t>(memory)]) continue;
          seen[static_cast<size_t>(memory)] = true;
          launch->releases.push_back(memory);
        }
      }
  }
}

}  // namespace

OpForm form_in_group(const Tape& tape, const TapeNode& node) {
  if (node.outputs == 0 || node.inputs == 0) return {};
  const Operand& first = tape.inputs(node)[0];
  if (first.memory < 0) return {};
  const OpForm form = form_of(*node.op, node.attrs.get(), first.view.sizes);
  if (form.kind == OpForm::Kind::pointwise && node.outputs != 1) return {};
  // Steps that the CPU alone has.
  const bool on_cpu = form.kind == OpForm::Kind::random || form.kind == OpForm::Kind::columns;
  if (on_cpu && !node.device.is_cpu()) return {};
  for (const Operand& output : tape.outputs(node))
    if (output.view.numel == 0) return {};
  return form;
}

std::span<const Operand> operands_read(const Tape& tape, const TapeNode& node, const OpForm& form) {
  const auto inputs = tape.inputs(node);
  if (form.kind == OpForm::Kind::number) return {};
  return form.kind == OpForm::Kind::cast ? inputs.subspan(form.operand, 1) : inputs;
}

void count_bytes(const Tape& tape, Launch& launch) {
  launch.bytes = launch.eager_bytes = 0;
  for (uint32_t index : launch.nodes) {
    const TapeNode& node = tape.nodes()[index];
    for (const auto& operands : {tape.inputs(node), tape.outputs(node)})
      for (const Operand& operand : operands)
        if (operand.memory >= 0) launch.eager_bytes += static_cast<int64_t>(operand.view.bytes());
  }
  launch.bytes = launch.kernel ? 0 : launch.eager_bytes;
  if (!launch.kernel) return;
  for (const auto* operands : {&launch.kernel->inputs, &launch.kernel->results})
    for (const PlannedOperand& operand : *operands)
      launch.bytes += bytes_of(tape.operand(operand.operand).view.dtype, operand.sizes.numel());
}

void finish_plan(const Tape& tape, Plan& plan) {
  plan.bytes = plan.eager_bytes = 0;
  for (const Launch& launch : plan.launches) {
    plan.bytes += launch.bytes;
    plan.eager_bytes += launch.eager_bytes;
  }
  note_releases(tape, plan);
}

int64_t used_fuel() { return fuel_used(); }
void give_back_fuel(int64_t used) { fuel_used() = used; }

Plan group_nodes(const Tape& tape, PlanOptions options, const Rewrite& rewrite,
                 const GroupLimits& limits) {
  return Planner(tape, options, rewrite, limits).run();
}

Plan make_plain_plan(const Tape& tape) {
  return Planner(tape, {.fuse = Fuse::nothing}, {}).run_alone();
}

}  // namespace tensora::jit
