#include "tensora/ops/shape/cat.h"

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/pointwise/define_pointwise.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<CatAttrs>) {
  return fields(field("dim", &CatAttrs::dim));
}

namespace {

// See cat() in the header: PyTorch's legacy rule.
bool is_ignored(const Shape& sizes) { return sizes.size() == 1 && sizes[0] == 0; }

DType promoted_dtype(const Infer& infer) {
  DType dtype = infer[0].dtype();
  for (const Arg& input : infer.inputs) dtype = promote_types(dtype, input->dtype());
  return dtype;
}

void infer_cat(Infer& infer, const CatAttrs& attrs) {
  infer.check(!infer.inputs.empty(), "expected at least one tensor");
  const Tensor* pattern = nullptr;
  for (size_t i = 0; i < infer.inputs.size(); ++i) {
    infer.check(infer[i].dim() > 0, "0-dim tensors cannot be joined (tensor ", i,
                " is one); use stack");
    if (!pattern && !is_ignored(infer[i].sizes())) pattern = &infer[i];
  }
  if (!pattern) pattern = &infer[0];
  const int dim = wrap_dim(attrs.dim, pattern->dim(), infer.op);
  Shape sizes = pattern->sizes();
  sizes[dim] = 0;
  for (size_t i = 0; i < infer.inputs.size(); ++i) {
    if (is_ignored(infer[i].sizes())) continue;
    Shape others = infer[i].sizes();
    const int64_t size = others.size() == sizes.size() ? others[dim] : 0;
    if (others.size() == sizes.size()) others[dim] = sizes[dim];
    infer.check(others == sizes, "sizes must match except in dimension ", dim, ", got ",
                pattern->sizes(), " and ", infer[i].sizes(), " (tensor ", i, ")");
    sizes[dim] = add_sizes(sizes[dim], size, infer.op);
  }
  infer.output(sizes, promoted_dtype(infer));
}

void infer_stack(Infer& infer, const CatAttrs& attrs) {
  infer.check(!infer.inputs.empty(), "expected at least one tensor");
  const int dim = wrap_dim(attrs.dim, infer[0].dim() + 1, infer.op);
  Shape sizes = infer[0].sizes();
  for (size_t i = 1; i < infer.inputs.size(); ++i)
    infer.check(infer[i].sizes() == sizes, "expected tensors of one shape, got ", sizes, " and ",
                infer[i].sizes(), " (tensor ", i, ")");
  sizes.insert(dim, static_cast<int64_t>(infer.inputs.size()));
  infer.output(sizes, promoted_dtype(infer));
}

// Copies the parts one after the other.
Tensors joined(Args in, const CatAttrs& attrs) {
  Infer infer("cat", in, in[0]->device());
  infer_cat(infer, attrs);
  const OutputSpec& spec = infer.outputs[0];
  Tensors result;
  result.push_back(empty(spec.sizes, {.dtype = spec.dtype, .device = infer.device}));
  const int dim = wrap_dim(attrs.dim, spec.sizes.size(), "cat");
  int64_t start = 0;
  for (const Arg& part : in) {
    if (is_ignored(part->sizes())) continue;
    copy_(narrow(result[0], dim, start, part->sizes()[dim]), *part);
    start += part->sizes()[dim];
  }
  return result;
}

std::vector<Tensor> with_dims(const std::vector<Tensor>& tensors, Tensor (*widen)(const Tensor&)) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(widen(tensor));
  return result;
}

}  // namespace

constinit OpDef<CatAttrs> cat_op = define(Op<CatAttrs>{
    .name = "cat",
    .inputs = {"tensors..."},
    .infer = infer_cat,
    .reference = joined,
    .vjp =
        [](Vjp& vjp, const CatAttrs& attrs) {
          const int dim = wrap_dim(attrs.dim, vjp.grad().dim(), "cat");
          int64_t start = 0;
          for (size_t i = 0; i < vjp.input_count(); ++i) {
            const Shape& sizes = vjp.input_sizes(i);
            if (is_ignored(sizes)) continue;
            if (vjp.needs(i)) vjp.set(i, narrow(vjp.grad(), dim, start, sizes[dim]));
            start += sizes[dim];
          }
        },
    .accepts = kElementDTypes,
});

constinit OpDef<CatAttrs> stack_op = define(Op<CatAttrs>{
    .name = "stack",
    .inputs = {"tensors..."},
    .infer = infer_stack,
    .reference =
        [](Args in, const CatAttrs& attrs) {
          const int64_t dim = wrap_dim(attrs.dim, in[0]->dim() + 1, "stack");
          std::vector<Tensor> parts;
          for (const Arg& part : in) parts.push_back(unsqueeze(*part, dim));
          Tensors result;
          result.push_back(cat(parts, dim));
          return result;
        },
    .vjp =
        [](Vjp& vjp, const CatAttrs& attrs) {
          for (size_t i = 0; i < vjp.input_count(); ++i)
            if (vjp.needs(i)) vjp.set(i, select(vjp.grad(), attrs.dim, static_cast<int64_t>(i)));
        },
    .accepts = kElementDTypes,
});

void register_cat(OpRegistry& registry) {
  registry.add(cat_op);
  registry.add(stack_op);
  shard_by(cat_op, "linear along dim");
  shard_by(stack_op, "linear stack dim");
}

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
  check_as<ValueError>(!tensors.empty(), "cat: expected at least one tensor");
  return apply(cat_op, args_of(tensors), {dim});
}
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim) { return cat(tensors, dim); }
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  return apply(stack_op, args_of(tensors), {dim});
}

Tensor hstack(const std::vector<Tensor>& tensors) {
  return called_as("hstack", [&]() {
    check(!tensors.empty(), "hstack: expected at least one tensor");
    return cat(with_dims(tensors, atleast_1d), tensors[0].dim() <= 1 ? 0 : 1);
  });
}
Tensor vstack(const std::vector<Tensor>& tensors) {
  return called_as("vstack", [&]() {
    check(!tensors.empty(), "vstack: expected at least one tensor");
    return cat(with_dims(tensors, atleast_2d), 0);
  });
}
Tensor dstack(const std::vector<Tensor>& tensors) {
  return called_as("dstack", [&]() {
    check(!tensors.empty(), "dstack: expected at least one tensor");
    return cat(with_dims(tensors, atleast_3d), 2);
  });
}

Tensor block_diag(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return empty({1, 0});
  // A 0-dim block yields to the others in type promotion, so it must be asked before it is widened.
  const DType dtype = result_type(args_of(tensors));
  std::vector<Tensor> blocks = with_dims(tensors, atleast_2d);
  for (Tensor& block : blocks) block = to(block, dtype);
  int64_t columns = 0;
  for (const Tensor& block : blocks) {
    check(block.dim() == 2, "block_diag: expected tensors of at most 2 dimensions, got shape ",
          block.sizes());
    columns = add_sizes(columns, block.sizes()[1], "block_diag");
  }
  std::vector<Tensor> rows;
  int64_t start = 0;
  for (const Tensor& block : blocks) {
    const Shape sizes{block.sizes()[0], columns};
    rows.push_back(apply(slice_backward_op, {block}, {sizes, 1, start, 1}));
    start += block.sizes()[1];
  }
  return cat(rows, 0);
}

}  // namespace tensora
