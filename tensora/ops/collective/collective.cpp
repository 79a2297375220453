#include "tensora/ops/collective/collective.h"

#include "tensora/dispatch/data_of.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora {

constexpr auto describe(std::type_identity<AllReduceAttrs>) {
  return fields(field("op", &AllReduceAttrs::op), field("group", &AllReduceAttrs::group));
}
constexpr auto describe(std::type_identity<GroupAttrs>) {
  return fields(field("group", &GroupAttrs::group));
}
constexpr auto describe(std::type_identity<GroupDimAttrs>) {
  return fields(field("dim", &GroupDimAttrs::dim), field("group", &GroupDimAttrs::group));
}
constexpr auto describe(std::type_identity<ReduceScatterAttrs>) {
  return fields(field("op", &ReduceScatterAttrs::op), field("dim", &ReduceScatterAttrs::dim),
                field("group", &ReduceScatterAttrs::group));
}
constexpr auto describe(std::type_identity<AllToAllAttrs>) {
  return fields(field("split_dim", &AllToAllAttrs::split_dim),
                field("concat_dim", &AllToAllAttrs::concat_dim),
                field("group", &AllToAllAttrs::group));
}
constexpr auto describe(std::type_identity<RootAttrs>) {
  return fields(field("root", &RootAttrs::root), field("group", &RootAttrs::group));
}

namespace {

// The definitions call a group, which every device has: there are no kernels. An op returns when
// its result can be used, so that the fast way of a blocking call fits.

Tensors one(Tensor tensor) {
  Tensors result;
  result.push_back(std::move(tensor));
  return result;
}

int64_t ranks_of(const std::string& group) { return find_group(group)->size(); }

// The parts for the ranks, one after the other in memory: dim `dim` is cut and its pieces are moved
// to the front.
Tensor parts_first(const Tensor& input, int64_t dim, int64_t ranks) {
  const int at = wrap_dim(dim, input.dim(), "all_to_all");
  Shape cut = input.sizes();
  cut[at] /= ranks;
  Shape sizes;
  for (int d = 0; d < input.dim(); ++d) {
    if (d == at) sizes.push_back(ranks);
    sizes.push_back(cut[d]);
  }
  return movedim(reshape(input, sizes), {at}, {0}).contiguous();
}

// The reverse: the first dim, of one entry per rank, is joined with dim `dim` of the rest.
Tensor join_parts(const Tensor& parts, int64_t dim) {
  const int at = wrap_dim(dim, parts.dim() - 1, "all_gather");
  Shape sizes(
      std::span<const int64_t>(parts.sizes().data() + 1, static_cast<size_t>(parts.dim() - 1)));
  sizes[at] *= parts.size(0);
  return reshape(movedim(parts, {0}, {at}), sizes);
}

Tensor empty_like_parts(const Tensor& part, int64_t ranks) {
  Shape sizes{ranks};
  for (int64_t size : part.sizes()) sizes.push_back(size);
  return empty(sizes, {.dtype = part.dtype(), .device = part.device()});
}

void check_divides(Infer& infer, int64_t dim, int64_t ranks) {
  infer.check(infer[0].size(dim) % ranks == 0, "dim ", dim, " of size ", infer[0].size(dim),
              " cannot be cut into equal parts for ", ranks, " ranks");
}

void check_root(Infer& infer, const RootAttrs& attrs) {
  const int64_t ranks = ranks_of(attrs.group);
  infer.check(attrs.root >= 0 && attrs.root < ranks, "rank ", attrs.root, " is not in a group of ",
              ranks);
  infer.output(infer[0].sizes(), infer[0].dtype());
}

void check_linear(std::string_view op, ReduceOp reduction) {
  check(reduction == ReduceOp::sum || reduction == ReduceOp::average, op, ": ", name(reduction),
        " is not differentiable; sum and average are");
}

// What an average's gradient is multiplied by.
Tensor scaled(const Tensor& grad, ReduceOp op, const std::string& group) {
  return op == ReduceOp::average ? grad * (1.0 / static_cast<double>(ranks_of(group))) : grad;
}

}  // namespace

constinit OpDef<AllReduceAttrs> all_reduce_op = define(Op<AllReduceAttrs>{
    .name = "all_reduce",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const AllReduceAttrs& attrs) {
          find_group(attrs.group);
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .reference =
        [](Args in, const AllReduceAttrs& attrs) {
          const Tensor result = in[0]->clone(MemoryFormat::contiguous);
          find_group(attrs.group)
              ->all_reduce(data_of(result), attrs.op, CallMode::blocking)
              ->wait();
          return one(result);
        },
    .vjp =
        [](Vjp& vjp, const AllReduceAttrs& attrs) {
          check_linear("all_reduce", attrs.op);
          vjp.set(0, scaled(vjp.grad(), attrs.op, attrs.group));
        },
    .accepts = kComputingDTypes,
});

constinit OpDef<GroupAttrs> replicate_grad_op = define(Op<GroupAttrs>{
    .name = "replicate_grad",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const GroupAttrs& attrs) {
          find_group(attrs.group);
          infer.view(infer[0].sizes(), infer[0].strides(), infer[0].storage_offset());
        },
    .vjp =
        [](Vjp& vjp, const GroupAttrs& attrs) {
          vjp.set(0, collective::all_reduce(vjp.grad(), ReduceOp::sum, attrs.group));
        },
    .view = true,
});

constinit OpDef<GroupDimAttrs> all_gather_op = define(Op<GroupDimAttrs>{
    .name = "all_gather",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const GroupDimAttrs& attrs) {
          Shape sizes = infer[0].sizes();
          sizes[wrap_dim(attrs.dim, infer[0].dim(), infer.op)] *= ranks_of(attrs.group);
          infer.output(sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const GroupDimAttrs& attrs) {
          const auto group = find_group(attrs.group);
          const Tensor part = in[0]->contiguous(), all = empty_like_parts(part, group->size());
          group->all_gather(data_of(all), data_of(part), CallMode::blocking)->wait();
          return one(join_parts(all, attrs.dim));
        },
    .vjp =
        [](Vjp& vjp, const GroupDimAttrs& attrs) {
          vjp.set(0, collective::reduce_scatter(vjp.grad(), ReduceOp::sum, attrs.dim, attrs.group));
        },
    .accepts = kElementDTypes,
});

constinit OpDef<ReduceScatterAttrs> reduce_scatter_op = define(Op<ReduceScatterAttrs>{
    .name = "reduce_scatter",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const ReduceScatterAttrs& attrs) {
          const int64_t ranks = ranks_of(attrs.group);
          Shape sizes = infer[0].sizes();
          int64_t& size = sizes[wrap_dim(attrs.dim, infer[0].dim(), infer.op)];
          check_divides(infer, attrs.dim, ranks);
          size /= ranks;
          infer.output(sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const ReduceScatterAttrs& attrs) {
          const auto group = find_group(attrs.group);
          const Tensor parts = parts_first(*in[0], attrs.dim, group->size());
          Shape sizes = in[0]->sizes();
          sizes[wrap_dim(attrs.dim, in[0]->dim(), "reduce_scatter")] /= group->size();
          const Tensor result = empty(sizes, {.dtype = in[0]->dtype(), .device = in[0]->device()});
          group->reduce_scatter(data_of(result), data_of(parts), attrs.op, CallMode::blocking)
              ->wait();
          return one(result);
        },
    .vjp =
        [](Vjp& vjp, const ReduceScatterAttrs& attrs) {
          check_linear("reduce_scatter", attrs.op);
          vjp.set(0, collective::all_gather(scaled(vjp.grad(), attrs.op, attrs.group), attrs.dim,
                                            attrs.group));
        },
    .accepts = kComputingDTypes,
});

constinit OpDef<AllToAllAttrs> all_to_all_op = define(Op<AllToAllAttrs>{
    .name = "all_to_all",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const AllToAllAttrs& attrs) {
          const int64_t ranks = ranks_of(attrs.group);
          Shape sizes = infer[0].sizes();
          const int split = wrap_dim(attrs.split_dim, infer[0].dim(), infer.op);
          const int concat = wrap_dim(attrs.concat_dim, infer[0].dim(), infer.op);
          check_divides(infer, attrs.split_dim, ranks);
          sizes[split] /= ranks;
          sizes[concat] *= ranks;
          infer.output(sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const AllToAllAttrs& attrs) {
          const auto group = find_group(attrs.group);
          const Tensor parts = parts_first(*in[0], attrs.split_dim, group->size());
          const Tensor received = empty_like(parts);
          group->all_to_all(data_of(received), data_of(parts), CallMode::blocking)->wait();
          return one(join_parts(received, attrs.concat_dim));
        },
    .vjp =
        [](Vjp& vjp, const AllToAllAttrs& attrs) {
          vjp.set(0, collective::all_to_all(vjp.grad(), attrs.concat_dim, attrs.split_dim,
                                            attrs.group));
        },
    .accepts = kElementDTypes,
});

constinit OpDef<RootAttrs> broadcast_op = define(Op<RootAttrs>{
    .name = "broadcast",
    .inputs = {"input"},
    .infer = check_root,
    .reference =
        [](Args in, const RootAttrs& attrs) {
          const Tensor result = in[0]->clone(MemoryFormat::contiguous);
          find_group(attrs.group)
              ->broadcast(data_of(result), attrs.root, CallMode::blocking)
              ->wait();
          return one(result);
        },
    .vjp =
        [](Vjp& vjp, const RootAttrs& attrs) {
          vjp.set(0, collective::reduce(vjp.grad(), attrs.root, attrs.group));
        },
    .accepts = kElementDTypes,
});

constinit OpDef<RootAttrs> reduce_to_op = define(Op<RootAttrs>{
    .name = "reduce_to",
    .inputs = {"input"},
    .infer = check_root,
    .reference =
        [](Args in, const RootAttrs& attrs) {
          const auto group = find_group(attrs.group);
          const Tensor result = in[0]->clone(MemoryFormat::contiguous);
          group->reduce(data_of(result), attrs.root, ReduceOp::sum, CallMode::blocking)->wait();
          if (group->rank() != attrs.root) result.zero_();
          return one(result);
        },
    .vjp =
        [](Vjp& vjp, const RootAttrs& attrs) {
          vjp.set(0, collective::broadcast(vjp.grad(), attrs.root, attrs.group));
        },
    .accepts = kComputingDTypes,
});

void register_collective(OpRegistry& registry) {
  registry.add(all_reduce_op);
  registry.add(replicate_grad_op);
  registry.add(all_gather_op);
  registry.add(reduce_scatter_op);
  registry.add(all_to_all_op);
  registry.add(broadcast_op);
  registry.add(reduce_to_op);
}

namespace collective {

Tensor all_reduce(const Tensor& input, ReduceOp op, const std::string& group) {
  return apply(all_reduce_op, {input}, {op, group});
}
Tensor replicate_grad(const Tensor& input, const std::string& group) {
  return apply(replicate_grad_op, {input}, {group});
}
Tensor all_gather(const Tensor& input, int64_t dim, const std::string& group) {
  return apply(all_gather_op, {input}, {dim, group});
}
Tensor reduce_scatter(const Tensor& input, ReduceOp op, int64_t dim, const std::string& group) {
  return apply(reduce_scatter_op, {input}, {op, dim, group});
}
Tensor all_to_all(const Tensor& input, int64_t split_dim, int64_t concat_dim,
                  const std::string& group) {
  return apply(all_to_all_op, {input}, {split_dim, concat_dim, group});
}
Tensor broadcast(const Tensor& input, int root, const std::string& group) {
  return apply(broadcast_op, {input}, {root, group});
}
Tensor reduce(const Tensor& input, int root, const std::string& group) {
  return apply(reduce_to_op, {input}, {root, group});
}

}  // namespace collective
}  // namespace tensora
