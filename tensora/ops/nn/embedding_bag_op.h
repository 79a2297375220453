#pragma once

// Internal header: the op behind embedding_bag.

#include "tensora/dispatch/op_def.h"

namespace tensora {

enum class BagMode : uint8_t { sum, mean, max };
constexpr std::array<std::string_view, 3> names_of(std::type_identity<BagMode>) {
  return {"sum", "mean", "max"};
}
struct EmbeddingBagAttrs {
  BagMode mode = BagMode::mean;
  bool include_last_offset = false;
  int64_t padding_idx = -1;
  bool scale_grad_by_freq = false;
  bool sparse = false;  // the gradient is
};
constexpr auto describe(std::type_identity<EmbeddingBagAttrs>) {
  using A = EmbeddingBagAttrs;
  return fields(field("mode", &A::mode), field("include_last_offset", &A::include_last_offset),
                field("padding_idx", &A::padding_idx),
                field("scale_grad_by_freq", &A::scale_grad_by_freq), field("sparse", &A::sparse));
}
/// (weight [V, D], indices [L], offsets [B], per_sample_weights? [L]) -> the result [B, D]; the bag
/// of each index, -1 where it does not count; how many count in each bag; and, for the maximum, the
/// row that each element comes from, else nothing.
extern OpDef<EmbeddingBagAttrs> embedding_bag_op;

}  // namespace tensora
