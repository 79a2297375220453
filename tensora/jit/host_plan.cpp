#include "tensora/jit/host_plan.h"

#include <algorithm>
#include <map>

#include "tensora/jit/row_ops.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

bool is_small_float(DType dtype) {
  return dtype == kFloat32 || dtype == kBFloat16 || dtype == kFloat16;
}

// Whether a chain of floats computes what the op would.
bool is_chained(const TileProgram& program, const Step& step) {
  if (cpu::chain_functions().strip == 0) return false;
  if (step.kind == Step::Kind::cast)
    return is_small_float(step.dtype) && program.dtype_of(step.operands[0]) != kFloat64;
  return step.kind == Step::Kind::pointwise && cpu::chain_step(step.op, 0) &&
         is_small_float(step.compute_dtype) && (is_small_float(step.dtype) || step.dtype == kBool);
}

/// Steps of one stage as a chain.
class ChainWriter {
 public:
  ChainWriter(const HostPlan& plan, Stage& stage, const std::vector<int>& outside)
      : plan_(plan), program_(plan.program), stage_(stage), chain_(stage.chain) {
    for (size_t i = 0; i < stage.values.size(); ++i) {
      own_[stage.values[i]] = static_cast<int>(i);
      for (int operand : step(stage.values[i]).operands) ++uses_[operand];
    }
    for (int value : outside) needed_outside_.push_back(value);
  }

  void run() {
    for (int value : stage_.values) write(value);
    push(cpu::chain_functions().end);
  }

 private:
  const Step& step(int value) const { return *program_.step_of(value); }

  void push(cpu::ChainCode code, ChainPlace memory = {}) {
    ChainPlan::Item& item = chain_.items.emplace_back();
    item.code = code;
    item.memory[0] = memory;
  }
  int external(int value) {
    for (size_t i = 0; i < chain_.externals.size(); ++i)
      if (chain_.externals[i].value == value && !chain_.externals[i].write)
        return static_cast<int>(i);
    chain_.externals.push_back({.value = value});
    return static_cast<int>(chain_.externals.size()) - 1;
  }
  // A value that does not have to be in registers.
  ChainPlace place(int value) {
    if (!own_.contains(value)) return {ChainPlace::Kind::external, external(value)};
    if (!slots_.contains(value)) keep(value);
    return {ChainPlace::Kind::slot, slots_.at(value)};
  }
  // Stores what is in registers in a slot.
  void keep(int value) {
    ensure(current_ == value, "jit: a value of a chain was lost");
    int slot = chain_.slots;
    if (free_.empty()) {
      ++chain_.slots;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[value] = slot;
    push(cpu::chain_functions().store, {ChainPlace::Kind::slot, slot});
  }
  void take(int operand) {
    if (--uses_[operand] > 0 || !slots_.contains(operand)) return;
    free_.push_back(slots_[operand]);
  }
  void load(int value) {
    const ChainPlace from = place(value);
    push(cpu::chain_functions().load, from);
    current_ = value;
  }

  void write(int value) {
    const Step& now = step(value);
    const std::vector<int>& operands = now.operands;
    // The operand in registers: what is there already if the functor has a step for it.
    size_t own = 0;
    for (size_t k = operands.size(); k-- > 0;)
      if (operands[k] == current_ && own_position(now, k)) own = k;
    // What is still needed after this step, also as a second operand of it, is kept.
    const bool in_registers = current_ >= 0 && operands[own] == current_;
    if (current_ >= 0 && own_.contains(current_) && !slots_.contains(current_)) {
      const auto here = std::count(operands.begin(), operands.end(), current_);
      if (uses_[current_] > (in_registers ? 1 : 0) || here > 1) keep(current_);
    }
    std::vector<ChainPlace> others;
    for (size_t k = 0; k < operands.size(); ++k)
      if (k != own) others.push_back(place(operands[k]));
    if (!in_registers) load(operands[own]);
    ChainPlan::Item item{.code = own_code(now, own), .step = value - program_.input_count()};
    std::copy(others.begin(), others.end(), item.memory.begin());
    if (item.code) chain_.items.push_back(item);
    for (int operand : operands) take(operand);
    current_ = value;
    store(value);  // which rounds by itself
    if (uses_[value] > 0 && !is_rounded(now)) round(now.dtype);
  }
  // One of its operands, which are rounded to its dtype; a condition may be bool.
  bool is_rounded(const Step& now) const {
    return now.kind == Step::Kind::pointwise && cpu::chain_step_is_exact(now.op) &&
           std::all_of(now.operands.begin(), now.operands.end(), [&](int operand) {
             const DType dtype = program_.dtype_of(operand);
             return dtype == now.dtype || dtype == kBool;
           });
  }
  static bool own_position(const Step& now, size_t k) {
    return now.kind == Step::Kind::cast || cpu::chain_step(now.op, static_cast<int>(k));
  }
  static cpu::ChainCode own_code(const Step& now, size_t own) {
    return now.kind == Step::Kind::cast ? nullptr : cpu::chain_step(now.op, static_cast<int>(own));
  }
  void round(DType dtype) {
    const cpu::ChainFunctions& functions = cpu::chain_functions();
    if (dtype == kBFloat16) push(functions.round_bfloat16);
    if (dtype == kFloat16) push(functions.round_float16);
  }
  void store(int value) {
    const int result = plan_.result_of[static_cast<size_t>(value)];
    const bool outside =
        std::find(needed_outside_.begin(), needed_outside_.end(), value) != needed_outside_.end();
    if (result < 0 && !outside) return;
    const int index = static_cast<int>(chain_.externals.size());
    chain_.externals.push_back({.value = value, .result = result, .write = true});
    push(cpu::chain_functions().store, {ChainPlace::Kind::external, index});
    chain_.items.back().store = index;
  }

  const HostPlan& plan_;
  const TileProgram& program_;
  Stage& stage_;
  ChainPlan& chain_;
  std::map<int, int> own_, uses_, slots_;
  std::vector<int> free_, needed_outside_;
  int current_ = -1;
};

// Each result becomes a value of its own: a copy of an input, or of another result, is a cast.
TileProgram with_own_results(const TileProgram& given) {
  TileProgram program = given;
  std::vector<int> taken;
  for (int& result : program.results) {
    const Step* const step = program.step_of(result);
    const bool plain = step && step->kind != Step::Kind::number &&
                       step->kind != Step::Kind::position && step->kind != Step::Kind::part &&
                       std::find(taken.begin(), taken.end(), result) == taken.end();
    if (!plain)
      result = program.add(Step{.kind = Step::Kind::cast,
                                .operands = {result},
                                .dtype = program.dtype_of(result),
                                .extent = program.extent_of(result)});
    taken.push_back(result);
  }
  return program;
}

struct Levels {
  std::vector<int> level;  // per value: how many stages come before
  std::vector<bool> chained;
};

Levels levels_of(const TileProgram& program) {
  Levels result;
  for (int i = 0; i < program.input_count(); ++i) {
    result.level.push_back(0);
    result.chained.push_back(false);
  }
  for (const Step& step : program.steps) {
    const bool chained = is_chained(program, step);
    int level = 0;
    for (int operand : step.operands) {
      const Step* const maker = operand < 0 ? nullptr : program.step_of(operand);
      if (!maker || maker->kind == Step::Kind::number) continue;
      const auto id = static_cast<size_t>(operand);
      const bool same = chained && result.chained[id] && program.extent_of(operand) == step.extent;
      level = std::max(level, result.level[id] + (same ? 0 : 1));
    }
    // A further output comes with the first.
    if (step.kind == Step::Kind::part) level = result.level[static_cast<size_t>(step.operands[0])];
    result.level.push_back(level);
    result.chained.push_back(chained);
  }
  return result;
}

void add_stages(HostPlan& plan) {
  const TileProgram& program = plan.program;
  const Levels levels = levels_of(program);
  const int most = *std::max_element(levels.level.begin(), levels.level.end());
  for (int level = 0; level <= most; ++level) {
    Stage chains[2] = {{.chained = true, .extent = Extent::element},
                       {.chained = true, .extent = Extent::row}};
    for (int value = program.input_count(); value < program.value_count(); ++value) {
      const auto id = static_cast<size_t>(value);
      if (levels.level[id] != level) continue;
      const Step& step = *program.step_of(value);
      if (levels.chained[id])
        chains[static_cast<int>(step.extent)].values.push_back(value);
      else if (step.kind != Step::Kind::number && step.kind != Step::Kind::part)
        plan.stages.push_back({.extent = step.extent, .values = {value}});
    }
    for (Stage& chain : chains)
      if (!chain.values.empty()) plan.stages.push_back(std::move(chain));
  }
}

// The values of each stage that another stage reads.
std::vector<std::vector<int>> crossing_values(const HostPlan& plan) {
  std::map<int, size_t> stage_of;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (int value : plan.stages[s].values) stage_of[value] = s;
  std::vector<std::vector<int>> crossing(plan.stages.size());
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (int value : plan.stages[s].values)
      for (int operand : plan.program.step_of(value)->operands) {
        const auto found = stage_of.find(operand);
        if (found == stage_of.end() || found->second == s) continue;
        std::vector<int>& list = crossing[found->second];
        if (std::find(list.begin(), list.end(), operand) == list.end()) list.push_back(operand);
      }
  return crossing;
}

void give_buffers(HostPlan& plan, const std::vector<std::vector<int>>& crossing) {
  const TileProgram& program = plan.program;
  const auto give = [&](int value) {
    int& buffer = plan.buffer_of[static_cast<size_t>(value)];
    if (buffer >= 0) return;
    buffer = static_cast<int>(plan.buffers.size());
    plan.buffers.push_back(value);
  };
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (int value : crossing[s])
      if (plan.result_of[static_cast<size_t>(value)] < 0) give(value);
    // Ops of rows want their outputs contiguous, which the results may not be.
    if (!stage.chained && stage.extent != Extent::column) give(stage.values[0]);
  }
  for (int value = program.input_count(); value < program.value_count(); ++value)
    if (program.step_of(value)->kind == Step::Kind::part) give(value);
}

}  // namespace

HostPlan make_host_plan(const TileProgram& given) {
  HostPlan plan{.program = with_own_results(given)};
  const auto values = static_cast<size_t>(plan.program.value_count());
  plan.buffer_of.assign(values, -1);
  plan.result_of.assign(values, -1);
  for (size_t i = 0; i < plan.program.results.size(); ++i)
    plan.result_of[static_cast<size_t>(plan.program.results[i])] = static_cast<int>(i);
  plan.is_read.assign(values, false);
  for (const Step& step : plan.program.steps)
    for (int operand : step.operands)
      if (operand >= 0) plan.is_read[static_cast<size_t>(operand)] = true;
  add_stages(plan);
  const auto crossing = crossing_values(plan);
  give_buffers(plan, crossing);
  for (size_t s = 0; s < plan.stages.size(); ++s)
    if (plan.stages[s].chained) ChainWriter(plan, plan.stages[s], crossing[s]).run();
  return plan;
}

std::string to_string(const HostPlan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages) {
    text += stage.chained ? "chain" : "op";
    for (int value : stage.values) {
      const Step& step = *plan.program.step_of(value);
      text += concat(" %", value, "=", step.op ? step.op->name : std::string_view("cast"));
    }
    if (stage.chained) text += concat(" (", stage.chain.slots, " slots)");
    text += stage.extent == Extent::row      ? " per row\n"
            : stage.extent == Extent::column ? " per column\n"
                                             : "\n";
  }
  return text;
}

}  // namespace tensora::jit
