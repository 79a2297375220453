#pragma once

// Internal header: the ops behind the sequences.

#include "tensora/dispatch/op_def.h"
#include "tensora/ops/creation/sequence_values.h"

namespace tensora {

constexpr auto describe(std::type_identity<Arange>) {
  return fields(field("start", &Arange::start), field("step", &Arange::step));
}
constexpr auto describe(std::type_identity<Linspace>) {
  return fields(field("start", &Linspace::start), field("end", &Linspace::end),
                field("steps", &Linspace::steps));
}
constexpr auto describe(std::type_identity<Logspace>) {
  return fields(field("start", &Logspace::start), field("end", &Logspace::end),
                field("steps", &Logspace::steps), field("base", &Logspace::base));
}
constexpr auto describe(std::type_identity<Eye>) { return fields(field("columns", &Eye::columns)); }
constexpr auto describe(std::type_identity<TriangleIndices>) {
  return fields(field("rows", &TriangleIndices::rows), field("columns", &TriangleIndices::columns),
                field("diagonal", &TriangleIndices::diagonal),
                field("lower", &TriangleIndices::lower));
}
// These ops overwrite their one input, whose shape, dtype and device they keep.
extern OpDef<Arange> arange_op;
extern OpDef<Linspace> linspace_op;
extern OpDef<Logspace> logspace_op;
extern OpDef<Eye> eye_op;
extern OpDef<TriangleIndices> triangle_indices_op;

}  // namespace tensora
