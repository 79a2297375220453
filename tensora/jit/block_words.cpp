#include "tensora/jit/block_words.h"

#include "tensora/jit/block_text.h"
#include "tensora/jit/tile_views.h"

namespace tensora::jit {

using Integer = BlockInteger;
using Step = BlockStep;

std::vector<uint64_t> block_words(const BlockProgram& program, std::span<const View> arrays) {
  const BlockWords at(program);
  std::vector<uint64_t> words(at.count);
  for (size_t i = 0; i < arrays.size(); ++i) {
    words[i] = reinterpret_cast<uintptr_t>(arrays[i].data);
    const auto bytes = static_cast<int64_t>(element_size(arrays[i].dtype));
    for (int d = 0; d < arrays[i].dim(); ++d) {
      words[at.sizes[i] + static_cast<size_t>(d)] = static_cast<uint64_t>(arrays[i].sizes[d]);
      words[at.strides[i] + static_cast<size_t>(d)] =
          static_cast<uint64_t>(arrays[i].strides[d] * bytes);
    }
  }
  for (size_t dim = 0; dim < program.grid.size(); ++dim)
    words[at.grid + dim] =
        static_cast<uint64_t>(evaluate(program, program.grid[dim], arrays, {}, {}));
  for (size_t i = 0; i < program.integers.size(); ++i)
    if (program.integers[i].kind == Integer::Kind::constant)
      words[at.constants[i]] = static_cast<uint64_t>(program.integers[i].value);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.kind == Step::Kind::fill)
      write_number(step.number, program.value(step.value).dtype, &words[at.numbers[i]]);
    if (step.kind == Step::Kind::uniform || step.kind == Step::Kind::normal) {
      words[at.numbers[i]] = step.seed;
      words[at.numbers[i] + 1] = step.offset;
    }
  }
  return words;
}

std::string block_key(const BlockProgram& program) {
  std::string key;
  const auto put = [&](auto number) {
    const auto value = static_cast<int64_t>(number);
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (size_t i = 0; i < program.arrays.size(); ++i) {
    put(program.arrays[i]);
    put(program.ranks[i]);
  }
  for (const Integer& integer : program.integers) {
    put(integer.kind);
    put(integer.a);
    put(integer.b);
  }
  for (int count : program.grid) put(count);
  for (const BlockValue& value : program.values) {
    put(value.dtype);
    put(padded(value.rows));
    put(padded(value.columns));
    put(value.changes);
  }
  for (const Step& step : program.steps) {
    put(step.kind);
    put(step.value);
    put(step.operands.size());
    for (int operand : step.operands) put(operand);
    put(reinterpret_cast<uintptr_t>(step.op));
    put(step.compute_dtype);
    put(step.place.array);
    for (const BlockRange& range : step.place.ranges) {
      put(range.start);
      put(range.whole ? -1 : range.extent);
      put(range.limit);
      put(range.single);
    }
    for (int number : {step.axis, step.integer, step.begin, step.end, step.by}) put(number);
    // The bounds of a filled tile are printed as they are.
    if (step.kind == Step::Kind::fill && step.place.array < 0) {
      put(program.value(step.value).rows);
      put(program.value(step.value).columns);
    }
  }
  return key;
}

}  // namespace tensora::jit
