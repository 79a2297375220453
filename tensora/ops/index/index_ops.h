#pragma once

// Internal header: the ops behind indexing with integer tensors.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Whether an index tensor may count from the end.
enum class Negative : uint8_t { wrapped, refused };
constexpr std::array<std::string_view, 2> names_of(std::type_identity<Negative>) {
  return {"wrapped", "refused"};
}

/// Input 0 indexed along `dims` by the following inputs, one integer tensor per dim.
struct IndexAttrs {
  Dims dims;
  Negative negative = Negative::wrapped;
};
constexpr auto describe(std::type_identity<IndexAttrs>) {
  return fields(field("dims", &IndexAttrs::dims), field("negative", &IndexAttrs::negative));
}
extern OpDef<IndexAttrs> index_op, index_select_op, take_op;

/// Zeros of shape `sizes`, with the input added up at the places it was read from.
struct IndexBackwardAttrs {
  Shape sizes;
  Dims dims;
  Negative negative = Negative::wrapped;
};
constexpr auto describe(std::type_identity<IndexBackwardAttrs>) {
  using A = IndexBackwardAttrs;
  return fields(field("sizes", &A::sizes), field("dims", &A::dims),
                field("negative", &A::negative));
}
extern OpDef<IndexBackwardAttrs> index_backward_op;

/// Input 0 with input 1 written, or added, to the places that the following inputs select.
struct IndexPutAttrs {
  Dims dims;
  bool accumulate = false;
  Negative negative = Negative::wrapped;
};
constexpr auto describe(std::type_identity<IndexPutAttrs>) {
  using A = IndexPutAttrs;
  return fields(field("dims", &A::dims), field("accumulate", &A::accumulate),
                field("negative", &A::negative));
}
extern OpDef<IndexPutAttrs> index_put_op, index_add_op, index_copy_op, index_fill_op;

/// How the result of indexing is laid out: dims before, of, and after the index tensors.
struct IndexedShape {
  Shape sizes;
  int index_start = 0;  // the first dim that comes from the index tensors
  int index_dims = 0;
  Dims kept;  // the dims of the indexed tensor behind the other dims, in order
};
/// Throws, naming `op`, if the index tensors cannot be broadcast together.
IndexedShape indexed_shape(const Shape& sizes, const Dims& dims,
                           std::span<const Shape* const> index_sizes, std::string_view op);

}  // namespace tensora
