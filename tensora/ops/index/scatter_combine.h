#pragma once

// Internal header: the op behind scatter_reduce.

#include "tensora/dispatch/op_def.h"

namespace tensora {

enum class Combine : uint8_t { prod, amax, amin };
constexpr std::array<std::string_view, 3> names_of(std::type_identity<Combine>) {
  return {"prod", "amax", "amin"};
}

struct ScatterCombineAttrs {
  int64_t dim = 0;
  Combine combine = Combine::prod;
};
constexpr auto describe(std::type_identity<ScatterCombineAttrs>) {
  using A = ScatterCombineAttrs;
  return fields(field("dim", &A::dim), field("combine", &A::combine));
}
/// (self, index, src): `self` with the values of `src` combined with what is at their places, as
/// scatter_add adds them. Sums are scatter_add's.
extern OpDef<ScatterCombineAttrs> scatter_combine_op;

}  // namespace tensora
