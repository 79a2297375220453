#include "tensora/ops/sort/searchsorted.h"

#include <limits>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/masked.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/sort/searchsorted_op.h"
#include "tensora/ops/sort/sort.h"

namespace tensora {
namespace {

void infer_search(Infer& infer, const SearchsortedAttrs& attrs) {
  const Tensor &sequence = infer[0], &input = infer[1];
  const Shape &rows = sequence.sizes(), &values = input.sizes();
  infer.check(sequence.dim() > 0, "sorted_sequence must have at least one dimension");
  bool fits = sequence.dim() == 1 || rows.size() == values.size();
  for (int d = 0; fits && sequence.dim() > 1 && d + 1 < rows.size(); ++d)
    fits = rows[d] == values[d];
  infer.check(fits,
              "sorted_sequence must be 1-D, or agree with input in all dimensions but the "
              "last, got ",
              rows, " and ", values);
  infer.check(sequence.dtype() == input.dtype(), "expected one dtype, got ", sequence.dtype(),
              " and ", input.dtype());
  infer.check(sequence.is_contiguous() && input.is_contiguous(), "expected contiguous tensors");
  if (infer.has(2)) {
    infer.check(infer[2].sizes() == rows, "sorter must have the shape of sorted_sequence, ", rows,
                ", got ", infer[2].sizes());
    infer.check(infer[2].dtype() == kInt64, "sorter must have dtype int64, got ", infer[2].dtype());
    infer.check(infer[2].is_contiguous(), "expected a contiguous sorter");
  }
  infer.check(!attrs.out_int32 || sequence.size(-1) < int64_t{1} << 31,
              "the positions of a dimension of size ", sequence.size(-1), " do not fit into int32");
  infer.output(values, attrs.out_int32 ? kInt32 : kInt64);
}

// How many elements come before the place: by comparing all with all.
Tensors search_reference(Args in, const SearchsortedAttrs& attrs) {
  Tensor sequence = *in[0];
  if (in.size() > 2 && in[2]->defined()) sequence = gather(sequence, -1, *in[2]);
  const Tensor& input = *in[1];
  const Tensor value = unsqueeze(input, -1);
  const Tensor row = sequence.dim() == 1 ? sequence : unsqueeze(sequence, -2);
  const Tensor before = logical_or(isnan(value), attrs.right ? le(row, value) : lt(row, value));
  return Tensors{to(sum(before, {-1}), attrs.out_int32 ? kInt32 : kInt64)};
}

bool goes_right(bool right, std::string_view side) {
  if (side.empty()) return right;
  check(side == "left" || side == "right", "searchsorted: side must be 'left' or 'right', got ",
        side);
  check(side == "right" || !right, "searchsorted: side is 'left', but right is true");
  return side == "right";
}

Tensor as_tensor(Scalar value, const Tensor& like) {
  return full({}, value, {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

constinit OpDef<SearchsortedAttrs> searchsorted_op =
    define(Op<SearchsortedAttrs>{.name = "searchsorted",
                                 .inputs = {"sorted_sequence", "input", "sorter?"},
                                 .infer = infer_search,
                                 .reference = search_reference,
                                 .gradient = Gradient::not_differentiable});

void register_searchsorted(OpRegistry& registry) { registry.add(searchsorted_op); }

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& input, bool out_int32, bool right,
                    std::string_view side, const Tensor& sorter) {
  const SearchsortedAttrs attrs{goes_right(right, side), out_int32};
  check(sorted_sequence.dim() == 1 || input.dim() > 0,
        "searchsorted: input may be a number only if sorted_sequence is 1-D, got shape ",
        sorted_sequence.sizes());
  const DType dtype = promote_types(sorted_sequence.dtype(), input.dtype());
  const Tensor sequence = contiguous(to(sorted_sequence.detach(), dtype));
  const Tensor values = contiguous(to(input.detach(), dtype));
  if (!sorter.defined()) return apply(searchsorted_op, {sequence, values}, attrs);
  return apply(searchsorted_op, {sequence, values, contiguous(sorter)}, attrs);
}
Tensor searchsorted(const Tensor& sorted_sequence, Scalar input, bool out_int32, bool right,
                    std::string_view side, const Tensor& sorter) {
  return searchsorted(sorted_sequence, as_tensor(input, sorted_sequence), out_int32, right, side,
                      sorter);
}

Tensor bucketize(const Tensor& input, const Tensor& boundaries, bool out_int32, bool right) {
  check(boundaries.dim() == 1, "bucketize: boundaries must be 1-D, got shape ", boundaries.sizes());
  return called_as("bucketize", [&] { return searchsorted(boundaries, input, out_int32, right); });
}
Tensor bucketize(Scalar input, const Tensor& boundaries, bool out_int32, bool right) {
  return bucketize(as_tensor(input, boundaries), boundaries, out_int32, right);
}

// The tests are sorted, and each element is compared with the one that it would be inserted
// before.
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
  const DType dtype = promote_types(elements.dtype(), test_elements.dtype());
  const Tensor x = to(elements.detach(), dtype), tests = ravel(to(test_elements.detach(), dtype));
  Tensor found;
  if (tests.numel() == 0) {
    found = zeros(x.sizes(), {.dtype = kBool, .device = x.device()});
  } else {
    const Tensor sorted = std::get<0>(sort(tests, 0));
    // NaN, which comes last, equals nothing; as infinity it keeps its place in the search.
    const Tensor ordered =
        sorted.is_floating_point()
            ? masked_fill(sorted, isnan(sorted), std::numeric_limits<double>::infinity())
            : sorted;
    const Tensor place = clamp_max(searchsorted(ordered, x), tests.numel() - 1);
    found = eq(take(sorted, place), x);
  }
  return invert ? logical_not(found) : found;
}
Tensor isin(const Tensor& elements, Scalar test_element, bool assume_unique, bool invert) {
  return isin(elements, full({}, test_element, {.device = elements.device()}), assume_unique,
              invert);
}
Tensor isin(Scalar element, const Tensor& test_elements, bool assume_unique, bool invert) {
  return isin(full({}, element, {.device = test_elements.device()}), test_elements, assume_unique,
              invert);
}

}  // namespace tensora
