#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Consecutive parts of one dim: of the given `sizes`, or all of `size` with a shorter last one.
struct SplitAttrs {
  int64_t dim = 0;
  int64_t size = 0;
  Shape sizes = {};
};
extern OpDef<SplitAttrs> split_op;

struct UnbindAttrs {
  int64_t dim = 0;
};
extern OpDef<UnbindAttrs> unbind_op;

/// Views of consecutive parts of one dim: of `split_size` elements (the last may have fewer), or of
/// the sizes given, which must add up to the dim's.
std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim = 0);
std::vector<Tensor> split_with_sizes(const Tensor& self, const std::vector<int64_t>& split_sizes,
                                     int64_t dim = 0);
std::vector<Tensor> split(const Tensor& self, const std::vector<int64_t>& split_sizes,
                          int64_t dim = 0);
/// At most `chunks` views of equal size, the last possibly shorter.
std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim = 0);
/// Exactly `sections` views whose sizes differ by at most one, or views that end at `indices`.
std::vector<Tensor> tensor_split(const Tensor& self, int64_t sections, int64_t dim = 0);
std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<int64_t>& indices,
                                 int64_t dim = 0);
/// The parts at every index of a dim.
std::vector<Tensor> unbind(const Tensor& self, int64_t dim = 0);

}  // namespace tensora
