#include "tensora/jit/random_ops.h"

#include <cstring>

#include "tensora/ops/nn/dropout.h"
#include "tensora/ops/random/random.h"

namespace tensora::jit {
namespace {

bool always(const void*) { return true; }
bool only_scales(const void* attrs) { return !static_cast<const DropoutAttrs*>(attrs)->shifts(); }

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
    {&dropout_op, true, only_scales, with_start<DropoutAttrs>},
    {&uniform_op, false, always, with_start<Uniform>},
    {&normal_op, false, always, with_start<Normal>},
    {&exponential_op, false, always, with_start<Exponential>},
    {&bernoulli_op, false, always, with_start<Bernoulli>},
    {&random_op, false, always, with_start<RandomInteger>},
};

View row_of(void* data, DType dtype, int64_t count, int64_t stride) {
  View view;
  view.data = data;
  view.dtype = dtype;
  view.sizes = Shape{count};
  view.strides = Strides{stride};
  view.update();
  return view;
}

}  // namespace

const RandomOp* find_random_op(const OpBase& op) {
  for (const RandomOp& random : kRandomOps)
    if (random.op == &op) return &random;
  return nullptr;
}

void draw(const TileProgram::Step& step, const void* attrs, int64_t first, int64_t count,
          void* to) {
  if (count == 0) return;
  const RandomOp& random = *find_random_op(*step.op);
  // Numbers are drawn from the beginning of a block on.
  const int64_t start = first / kRandomBlock * kRandomBlock, before = first - start;
  const size_t element = element_size(step.dtype);
  std::vector<std::byte> whole;
  if (before > 0) whole.resize(static_cast<size_t>(before + count) * element);
  const View out = row_of(before > 0 ? whole.data() : to, step.dtype, before + count, 1);
  // The product with 1 is the factor itself.
  float one = 1;
  double wide_one = 1;
  void* const ones = step.dtype == kFloat64 ? static_cast<void*>(&wide_one) : &one;
  const View in = random.scales ? row_of(ones, step.dtype, before + count, 0) : out;
  const View *const inputs[] = {&in}, *const outputs[] = {&out};
  random.with_start(attrs, start, step.dtype, [&](const void* moved) {
    step.op->run_kernel(*step.op, {step.op->name, inputs, outputs, Device(), step.dtype}, moved);
  });
  if (before > 0)
    std::memcpy(to, whole.data() + static_cast<size_t>(before) * element,
                static_cast<size_t>(count) * element);
}

}  // namespace tensora::jit
