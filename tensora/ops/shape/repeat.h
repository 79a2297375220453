#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Tiles copies of `self`, `repeats[d]` of them along dim d; more entries than dims add
/// leading dims.
Tensor repeat(const Tensor& self, const Shape& repeats);
/// The same, with `dims` filled up with leading ones.
Tensor tile(const Tensor& self, const Shape& dims);
/// Repeats every element `repeats` times along `dim`; without a dim, of the flattened tensor.
Tensor repeat_interleave(const Tensor& self, int64_t repeats, std::optional<int64_t> dim = {});
/// The same with a separate count for each entry of the dim, or one for all; reads `repeats` on
/// the host.
Tensor repeat_interleave(const Tensor& self, const Tensor& repeats,
                         std::optional<int64_t> dim = {});

}  // namespace tensora
