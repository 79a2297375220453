#include "tensora/jit/block_program.h"

#include <array>
#include <atomic>

namespace tensora::jit {
namespace {

using Integer = BlockInteger;
using Step = BlockStep;

constexpr std::string_view kStepNames[] = {
    "load", "store",   "atomic_add", "pointwise", "cast",   "reduce", "dot",  "transpose",
    "fill", "integer", "position",   "uniform",   "normal", "set",    "loop", "end"};
constexpr std::string_view kIntegerNames[] = {"constant", "size", "program", "loop",  "+", "-", "*",
                                              "/",        "%",    "smaller", "larger"};

std::string text_of(const BlockProgram& program, int integer) {
  if (integer < 0) return "none";
  const Integer& node = program.integer(integer);
  switch (node.kind) {
    case Integer::Kind::constant:
      return concat("c", integer);
    case Integer::Kind::size:
      return concat("size(", node.a, ",", node.b, ")");
    case Integer::Kind::program:
      return concat("program(", node.a, ")");
    case Integer::Kind::loop:
      return concat("loop(", node.a, ")");
    default:
      return concat(kIntegerNames[static_cast<size_t>(node.kind)], "(", text_of(program, node.a),
                    ",", text_of(program, node.b), ")");
  }
}

std::string text_of(const BlockProgram& program, const BlockPlace& place) {
  std::string text = concat(" @", place.array, "[");
  for (const BlockRange& range : place.ranges) {
    text += concat(text.ends_with('[') ? "" : ", ", text_of(program, range.start));
    if (!range.single) text += concat(":", range.extent);
    if (range.limit >= 0) text += concat(" < ", text_of(program, range.limit));
  }
  return text + "]";
}

std::array<std::atomic<BlockLauncher>, kDeviceTypeCount>& launchers() {
  static std::array<std::atomic<BlockLauncher>, kDeviceTypeCount> list = {};
  return list;
}

}  // namespace

std::string to_string(const BlockProgram& program) {
  std::string text = concat("kernel ", program.name, "\n");
  for (size_t i = 0; i < program.arrays.size(); ++i)
    text += concat("@", i, " : ", program.arrays[i], " of ", program.ranks[i], " dims\n");
  for (int count : program.grid) text += concat("grid ", text_of(program, count), "\n");
  for (const Step& step : program.steps) {
    if (step.value >= 0) text += concat("%", step.value, " = ");
    text += step.op ? step.op->name : kStepNames[static_cast<size_t>(step.kind)];
    for (int operand : step.operands) text += concat(" %", operand);
    if (step.place.array >= 0) text += text_of(program, step.place);
    if (step.kind == Step::Kind::reduce || step.kind == Step::Kind::position)
      text += concat(" axis ", step.axis);
    if (step.op)
      if (const auto attrs = step.op->list_attrs(step.attrs.get()); !attrs.empty())
        text += concat(" ", tensora::to_string(attrs));
    if (step.integer >= 0) text += concat(" ", text_of(program, step.integer));
    if (step.kind == Step::Kind::loop)
      text += concat(" ", text_of(program, step.begin), " to ", text_of(program, step.end), " by ",
                     text_of(program, step.by));
    if (step.value >= 0) {
      const BlockValue& value = program.value(step.value);
      text += concat(" : ", value.dtype, " [", value.rows, ", ", value.columns, "]");
    }
    if (step.kind == Step::Kind::pointwise) text += concat(" in ", step.compute_dtype);
    text += "\n";
  }
  return text;
}

int64_t evaluate(const BlockProgram& program, int integer, std::span<const View> arrays,
                 std::span<const int64_t> programs, std::span<const int64_t> loops) {
  const Integer& node = program.integer(integer);
  switch (node.kind) {
    case Integer::Kind::constant:
      return node.value;
    case Integer::Kind::size:
      return arrays[static_cast<size_t>(node.a)].sizes[node.b];
    case Integer::Kind::program:
      return programs[static_cast<size_t>(node.a)];
    case Integer::Kind::loop:
      return loops[static_cast<size_t>(node.a)];
    default:
      break;
  }
  const int64_t a = evaluate(program, node.a, arrays, programs, loops);
  const int64_t b = evaluate(program, node.b, arrays, programs, loops);
  const auto floor_divide = [&] {
    if (b == 0) fail("kernel ", program.name, ": an integer is divided by 0");
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  };
  switch (node.kind) {
    case Integer::Kind::add:
      return a + b;
    case Integer::Kind::subtract:
      return a - b;
    case Integer::Kind::multiply:
      return a * b;
    case Integer::Kind::divide:
      return floor_divide();
    case Integer::Kind::remainder:
      return a - floor_divide() * b;
    case Integer::Kind::smaller:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

void set_block_launcher(DeviceType device, BlockLauncher launcher) {
  launchers()[static_cast<size_t>(device)].store(launcher, std::memory_order_release);
}

void launch(const BlockProgram& program, std::span<const View> arrays, Device device) {
  if (device.is_cpu()) return run_on_host(program, arrays);
  const BlockLauncher launcher =
      launchers()[static_cast<size_t>(device.type)].load(std::memory_order_acquire);
  check(launcher != nullptr, "kernel ", program.name, ": kernels cannot run on ", device);
  launcher(program, arrays, device);
}

}  // namespace tensora::jit
