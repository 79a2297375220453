#pragma once

// The block formats, one header each. A new one is a row in core/dtype.h, a header like q4_0.h and
// a name in the list below. docs/add-a-quant-type.md has the steps.

#include <utility>

#include "tensora/ops/quant/iq4_nl.h"
#include "tensora/ops/quant/iq4_xs.h"
#include "tensora/ops/quant/mxfp4.h"
#include "tensora/ops/quant/nf4.h"
#include "tensora/ops/quant/q2_k.h"
#include "tensora/ops/quant/q3_k.h"
#include "tensora/ops/quant/q4_0.h"
#include "tensora/ops/quant/q4_1.h"
#include "tensora/ops/quant/q4_k.h"
#include "tensora/ops/quant/q5_0.h"
#include "tensora/ops/quant/q5_1.h"
#include "tensora/ops/quant/q5_k.h"
#include "tensora/ops/quant/q6_k.h"
#include "tensora/ops/quant/q8_0.h"

namespace tensora {

/// A block format: `kDType`, `kNumbers`, `float number(i)` and `void encode(const float*)`.
template <class... Blocks>
struct BlockList {};
using BlockFormats =
    BlockList<BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ2_K, BlockQ3_K,
              BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockIQ4_NL, BlockIQ4_XS, BlockMXFP4, BlockNF4>;

/// Calls `body.template operator()<Block>()` with the struct of a quantized dtype.
template <class Body, class... Blocks>
void visit_block(DType dtype, Body&& body, BlockList<Blocks...>) {
  const bool found =
      ((Blocks::kDType == dtype && (body.template operator()<Blocks>(), true)) || ...);
  ensure(found, "visit_block: called for ", dtype);
}
template <class Body>
void visit_block(DType dtype, Body&& body) {
  visit_block(dtype, std::forward<Body>(body), BlockFormats{});
}

/// Whether every quantized dtype has a format.
template <class... Blocks>
consteval bool all_have_blocks(BlockList<Blocks...>) {
  return dtypes_where([](const DTypeInfo& info) { return info.category == Category::quantized; }) ==
         (set_of(Blocks::kDType) | ...);
}
static_assert(all_have_blocks(BlockFormats{}));

}  // namespace tensora
