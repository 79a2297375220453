#include "tensora/jit/random_ops.h"

#include <cstring>

#include "tensora/jit/tile_views.h"
#include "tensora/ops/nn/dropout.h"
#include "tensora/ops/random/random.h"

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

// See Note [Lanes] in core/philox.h, and Note [Four in a row] of dropout.
constexpr int64_t kLanesBlock = int64_t{kPhiloxLanes} * 4, kRowBlock = 4;

// How many elements one counter serves.
int64_t per_counter(const RandomInteger&, DType) { return 2; }
int64_t per_counter(const Bernoulli&, DType) { return 4; }
int64_t per_counter(const DropoutAttrs&, DType) { return 4; }
template <class Distribution>
int64_t per_counter(const Distribution&, DType dtype) {
  return dtype == kFloat64 ? kValuesPerCounter<double> : kValuesPerCounter<float>;
}

template <class Attrs>
void with_start(const void* attrs, int64_t element, DType dtype,
                FunctionRef<void(const void* attrs)> body) {
  Attrs moved = *static_cast<const Attrs*>(attrs);
  moved.offset += static_cast<uint64_t>(element / per_counter(moved, dtype));
  body(&moved);
}

const RandomOp kRandomOps[] = {
    {&dropout_op, true, kRowBlock, with_start<DropoutAttrs>},
    {&uniform_op, false, kLanesBlock, with_start<Uniform>},
    {&normal_op, false, kLanesBlock, with_start<Normal>},
    {&exponential_op, false, kLanesBlock, with_start<Exponential>},
    {&bernoulli_op, false, kLanesBlock, with_start<Bernoulli>},
    {&random_op, false, kLanesBlock, with_start<RandomInteger>},
};

View row_of(void* data, DType dtype, int64_t count) {
  View view;
  view.data = data;
  view.dtype = dtype;
  view.sizes = Shape{count};
  view.strides = Strides{1};
  view.update();
  return view;
}

}  // namespace

const RandomOp* find_random_op(const OpBase& op) {
  for (const RandomOp& random : kRandomOps)
    if (random.op == &op) return &random;
  return nullptr;
}

void draw(const Step& step, const void* attrs, int64_t first, const View* in, const View& out) {
  if (out.numel == 0) return;
  const RandomOp& random = *find_random_op(*step.op);
  const auto run = [&](int64_t start, const View* from, const View& to) {
    const View *const inputs[] = {from ? from : &to}, *const outputs[] = {&to};
    random.with_start(attrs, start, step.dtype, [&](const void* moved) {
      step.op->run_kernel(*step.op, {step.op->name, inputs, outputs, Device(), to.dtype}, moved);
    });
  };
  const int64_t before = first % random.block;
  if (before == 0) return run(first, in, out);
  // From the beginning of the block on, in memory of its own.
  const size_t element = element_size(step.dtype), bytes = out.bytes();
  std::vector<std::byte> whole(static_cast<size_t>(before) * element + bytes);
  std::byte* const part = whole.data() + static_cast<size_t>(before) * element;
  if (in) {
    View copy = row_of(part, step.dtype, out.numel);
    copy.sizes = in->sizes;
    copy.strides = contiguous_strides(in->sizes);
    copy.update();
    copy_view(*in, copy);
  }
  run(first - before, nullptr, row_of(whole.data(), step.dtype, before + out.numel));
  std::memcpy(out.data, part, bytes);
}

}  // namespace tensora::jit
