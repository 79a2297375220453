#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Where each element of `input` would have to be inserted into the ascending last dim of
/// `sorted_sequence` to keep it sorted: before all elements that equal it, or behind them if
/// `right` or `side` "right". A 1-D sequence serves an input of any shape; else all dims but the
/// last are the same. `sorter`, if given, holds the positions that sort an unsorted sequence. NaN
/// goes to the end.
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& input, bool out_int32 = false,
                    bool right = false, std::string_view side = {}, const Tensor& sorter = {});
Tensor searchsorted(const Tensor& sorted_sequence, Scalar input, bool out_int32 = false,
                    bool right = false, std::string_view side = {}, const Tensor& sorter = {});
/// The number of the interval between 1-D `boundaries` into which each element falls.
Tensor bucketize(const Tensor& input, const Tensor& boundaries, bool out_int32 = false,
                 bool right = false);
Tensor bucketize(Scalar input, const Tensor& boundaries, bool out_int32 = false,
                 bool right = false);

/// Whether each of `elements` is among `test_elements`; if `invert`, whether it is not. NaN is
/// never. `assume_unique` changes nothing.
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool assume_unique = false,
            bool invert = false);
Tensor isin(const Tensor& elements, Scalar test_element, bool assume_unique = false,
            bool invert = false);
Tensor isin(Scalar element, const Tensor& test_elements, bool assume_unique = false,
            bool invert = false);

}  // namespace tensora
