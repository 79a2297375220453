#include "tensora/ops/paged/paged_advance.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/paged/paged_advance_op.h"
#include "tensora/ops/paged/paged_checks.h"

namespace tensora {

constexpr auto describe(std::type_identity<PagedAdvanceAttrs>) {
  return fields(field("block_size", &PagedAdvanceAttrs::block_size));
}

namespace {

using A = PagedAdvanceAttrs;

void infer_paged_advance(Infer& infer, const A& attrs) {
  const Shape sequences{infer[A::kTokens].numel()};
  infer.check(attrs.block_size > 0, "block_size must be positive, got ", attrs.block_size);
  check_integers(infer, A::kTokens, "tokens", kInt64, sequences);
  check_integers(infer, A::kPositions, "positions", kInt64, sequences);
  check_integers(infer, A::kSlots, "slots", kInt64, sequences);
  check_integers(infer, A::kLengths, "lengths", kInt32, sequences);
  check_integers(infer, A::kChoices, "choices", kInt64, {sequences[0], 3});
  check_integers(infer, A::kChosen, "chosen", kInt64, sequences);
  const Tensor& table = infer[A::kTable];
  infer.check(table.dim() == 2, "block_table must be a matrix, got shape ", table.sizes());
  check_integers(infer, A::kTable, "block_table", kInt32, {sequences[0], table.size(1)});
  for (size_t i = A::kTokens; i <= A::kChoices; ++i)
    infer.output(infer[i].sizes(), infer[i].dtype());
}

Tensors paged_advance_definition(Args in, const A& attrs) {
  const Tensor positions = *in[A::kPositions] + 1, &table = *in[A::kTable];
  const int64_t held = table.size(1) * attrs.block_size;
  Tensor slots = full_like(positions, -1);
  if (held > 0) {
    const Tensor inside = clamp(positions, 0, held - 1);
    const Tensor number = div(inside, attrs.block_size, "floor");
    const Tensor block = squeeze(gather(to(table, kInt64), 1, unsqueeze(number, 1)), 1);
    slots = where(positions < held, block * attrs.block_size + (inside - number * attrs.block_size),
                  slots);
  }
  const Tensor &choices = *in[A::kChoices], last = narrow(choices, 1, 2, 1) + 1;
  return Tensors{clamp(*in[A::kChosen], 0), positions, slots, *in[A::kLengths] + 1,
                 cat({narrow(choices, 1, 0, 2), last}, 1)};
}

}  // namespace

constinit OpDef<PagedAdvanceAttrs> paged_advance_op = define(Op<PagedAdvanceAttrs>{
    .name = "paged_advance",
    .inputs = {"tokens", "positions", "slots", "lengths", "choices", "chosen", "block_table"},
    .infer = infer_paged_advance,
    .reference = paged_advance_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = set_of(kInt32) | set_of(kInt64),
});

void register_paged_advance(OpRegistry& registry) {
  registry.add(paged_advance_op);
  shard_by(paged_advance_op, "writes");
}

Tensor paged_advance(const Tensor& tokens, const Tensor& positions, const Tensor& slots,
                     const Tensor& lengths, const Tensor& choices, const Tensor& chosen,
                     const Tensor& block_table, int64_t block_size) {
  const no_grad silent;
  apply_inplace(
      paged_advance_op,
      {tokens, positions, slots, lengths, choices, contiguous(chosen), contiguous(block_table)},
      {block_size});
  return tokens;
}

}  // namespace tensora
