#pragma once

// What becomes one kernel, as a fused group of ops or as a kernel that a user wrote: a list of
// steps on values that stay on the chip. A program holds no sizes, strides, addresses or numbers:
// those come with the call, so that one kernel serves all shapes.

#include "tensora/jit/graph.h"

namespace tensora::jit {

// Note [Tile programs]
// A program runs over a *space*, the index space that its arrays are broadcast to.
//   walk   every value has an element per element of the space;
//   rows   the last dims of the space are a row, which stays on the chip while it is computed with.
//          A value has an element per element of the space, or one per row (Extent::row): an input
//          like that, or the result of a reduction of the row.
// A sum over all dims but the last ones has an element per column (Extent::column). It is complete
// when the program has run, so no step reads it.
// Values are numbered: first the inputs, then one per step. Every value has the dtype that the
// eager op would have stored it in, and is rounded to it.

/// How many elements a value has.
enum class Extent : uint8_t { element, row, column };

struct TileProgram {
  enum class Kind : uint8_t { walk, rows };

  struct Input {
    DType dtype = DType::float32;
    Extent extent = Extent::element;
    bool host = false;  // a 0-dim CPU tensor in a program for another device
  };

  struct Step {
    enum class Kind : uint8_t {
      pointwise,  // a pointwise op; its attributes come with the call
      cast,       // operand 0 as `dtype`, by the rules of the op `cast`
      reduce,     // a reduction of the row by the library's op
      row,        // an op that maps rows to rows: softmax, layer_norm, …
      part,       // output number `part` of the row op that is operand 0
      position,   // of the element in its row; with Extent::row the number of the row. int64
      number,     // `number`, which comes with the call
      columns,    // the sum over the dims before the last ones, which the result's sizes name
      random,     // a random op, whose attributes come with the call
    };
    Kind kind = Kind::pointwise;
    const OpBase* op = nullptr;      // pointwise, reduce, row, columns and random
    AttrsCopy attrs = {};            // of it; of reduce and row they are part of the program
    std::vector<int> operands = {};  // values; -1: an optional operand that was left out
    DType dtype = DType::float32;
    DType compute_dtype = DType::float32;  // pointwise: in which the operands meet
    Extent extent = Extent::element;
    int part = 0;
    Scalar number = 0;
  };

  Kind kind = Kind::walk;
  std::vector<Input> inputs = {};
  std::vector<Step> steps = {};
  std::vector<int> results = {};  // the values that are stored, in the order of the call's results

  int input_count() const { return static_cast<int>(inputs.size()); }
  int value_count() const { return input_count() + static_cast<int>(steps.size()); }
  /// The step that makes a value; null for inputs.
  const Step* step_of(int value) const {
    return value < input_count() ? nullptr : &steps[static_cast<size_t>(value - input_count())];
  }
  DType dtype_of(int value) const {
    const Step* step = step_of(value);
    return step ? step->dtype : inputs[static_cast<size_t>(value)].dtype;
  }
  Extent extent_of(int value) const {
    const Step* step = step_of(value);
    return step ? step->extent : inputs[static_cast<size_t>(value)].extent;
  }

  /// Adds to the program and returns the value's number. Inputs come first.
  int add(Input input);
  int add(Step step);
};

/// Throws, naming the step, if the program is not one: operands that come later, a reduction in a
/// walk, an extent or dtype that does not follow from the operands.
void validate(const TileProgram& program);

/// What an op can be in a program.
struct OpForm {
  // cast: a copy too, within one dtype; number: every element of the result is the first attribute
  enum class Kind : uint8_t { none, pointwise, cast, number, reduce, row, columns, random };
  Kind kind = Kind::none;
  int row_dims = 0;      // how many of the last dims are the row, or are left by `columns`
  uint32_t operand = 0;  // the input that a cast reads
};
/// For an op that is called with an input 0 of these sizes. Reductions with and without `keepdim`
/// are the same step: its value has one element per row.
OpForm form_of(const OpBase& op, const void* attrs, const Shape& sizes);

/// A program that does the same in an order that depends on what it computes alone: steps in the
/// order of a walk from the results to the operands, inputs by first use, nothing unused.
struct CanonicalProgram {
  TileProgram program;
  std::vector<int> inputs, steps;  // where each came from
};
CanonicalProgram canonical(const TileProgram& program);

/// Everything that decides which kernel a program becomes, as text; equal programs have equal keys.
std::string key_of(const TileProgram& program);

/// One line per value, "%2 = add(%0, %1) : bfloat16", with the attributes.
std::string to_string(const TileProgram& program);

}  // namespace tensora::jit
