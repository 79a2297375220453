#pragma once

// Internal header: the op behind searchsorted and bucketize.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct SearchsortedAttrs {
  bool right = false;
  bool out_int32 = false;
};
constexpr auto describe(std::type_identity<SearchsortedAttrs>) {
  using A = SearchsortedAttrs;
  return fields(field("right", &A::right), field("out_int32", &A::out_int32));
}
/// Inputs: sorted_sequence, input, sorter; of one dtype, and contiguous.
extern OpDef<SearchsortedAttrs> searchsorted_op;

}  // namespace tensora
