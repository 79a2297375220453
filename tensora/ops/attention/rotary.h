#pragma once

#include <tuple>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct RotaryAttrs {
  bool interleaved = false;
  bool inverse = false;  // turns the other way round
};
/// Inputs: cos, sin, query, and key if that is to be turned in the same pass; outputs: query and
/// key turned.
extern OpDef<RotaryAttrs> rotary_op;

/// Rotary position embedding: turns pairs of each row's elements by the angles whose cosines and
/// sines are given. query, key: … L D; cos, sin: … L R / 2, broadcast to the leading dims of each.
/// The pairs are (i, i + R / 2) of the first R elements, or with `interleaved` (2 i, 2 i + 1); what
/// lies behind the first R is copied. cos and sin may have a wider dtype than query and key.
std::tuple<Tensor, Tensor> apply_rotary(const Tensor& query, const Tensor& key, const Tensor& cos,
                                        const Tensor& sin, bool interleaved = false);
/// The same at given positions of tables (cos, sin: positions R / 2): `positions` are integers of
/// shape L, or of … L as the leading dims of query and key without their heads, B L for B H L D.
std::tuple<Tensor, Tensor> apply_rotary_at(const Tensor& query, const Tensor& key,
                                           const Tensor& cos, const Tensor& sin,
                                           const Tensor& positions, bool interleaved = false);
/// The same for L successive positions from `offset` on, as when a cache already holds `offset`.
std::tuple<Tensor, Tensor> apply_rotary_from(const Tensor& query, const Tensor& key,
                                             const Tensor& cos, const Tensor& sin, int64_t offset,
                                             bool interleaved = false);
/// One tensor alone.
Tensor rotary_embedding(const Tensor& input, const Tensor& cos, const Tensor& sin,
                        bool interleaved = false);

/// The tables for positions 0 … length - 1: cosines and sines of position / base^(2 i / size) for
/// i < size / 2.
std::tuple<Tensor, Tensor> rotary_tables(int64_t length, int64_t size, double base = 10000,
                                         const TensorOptions& options = {});

}  // namespace tensora
