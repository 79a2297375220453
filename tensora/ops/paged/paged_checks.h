#pragma once

// Internal header: what the rules and definitions of the paged cache's ops have in common.

#include "tensora/dispatch/op.h"

namespace tensora {

inline constexpr DTypeSet kPagedActivations =
    set_of(kFloat32) | set_of(kFloat16) | set_of(kBFloat16);
inline constexpr DTypeSet kCacheDTypes = kPagedActivations | set_of(kFloat8E4M3) | set_of(kQ8_0);

/// Both caches: blocks G block_size D.
inline void check_caches(const Infer& infer, size_t keys_at, size_t values_at) {
  const Tensor &keys = infer[keys_at], &values = infer[values_at];
  infer.check(contains(kCacheDTypes, keys.dtype()),
              "the caches must be float32, float16, bfloat16, float8_e4m3fn or q8_0, got ",
              keys.dtype());
  infer.check(keys.dim() == 4 && keys.size(2) > 0,
              "the caches must have shape [blocks, heads, block size, head size], got ",
              keys.sizes());
  infer.check(values.dtype() == keys.dtype() && values.sizes() == keys.sizes(),
              "both caches must have one shape and dtype, got ", keys.dtype(), " ", keys.sizes(),
              " and ", values.dtype(), " ", values.sizes());
  infer.check(keys.is_contiguous() && values.is_contiguous(), "the caches must be contiguous");
}

inline void check_integers(const Infer& infer, size_t at, std::string_view what, DType dtype,
                           const Shape& sizes) {
  infer.check(infer[at].dtype() == dtype && infer[at].sizes() == sizes, what, " must be ", dtype,
              " of shape ", sizes, ", got ", infer[at].dtype(), " ", infer[at].sizes());
  infer.check(infer[at].is_contiguous(), what, " must be contiguous");
}

}  // namespace tensora
