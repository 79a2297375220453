#include "tensora/ops/nn/gated.h"

#include <algorithm>

#include "tensora/backend/cpu/parts.h"
#include "tensora/backend/cpu/walk.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/nn/gated_math.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 1024;

// The halves of an input as views of the output's shape.
struct Halves {
  View a, b;

  Halves(const View& input, const View* second, int64_t dim, std::string_view op)
      : a(input), b(second ? *second : input) {
    if (second) return;
    const int at = wrap_dim(dim, input.dim(), op);
    const int64_t half = input.sizes[at] / 2;
    a = part_of(input, at, 0, 1, half);
    b = part_of(input, at, half, 1, half);
  }
};

// Calls body(n, tiles) with tiles of all arrays; the first `written` are stored afterwards.
template <class C, int K, class Body>
void each_tile(const View* const (&views)[K], int written, const Body& body) {
  const Walk walk(views);
  const auto bytes = static_cast<int64_t>(element_size(views[0]->dtype));
  const LoadFn load = load_fn<C>(views[0]->dtype);
  const StoreFn store = store_fn<C>(views[0]->dtype);
  parallel_for(walk.numel(), 8 * kTile, [&](int64_t begin, int64_t end) {
    C tiles[K][kTile];
    for (int64_t at = begin; at < end; at += kTile) {
      const int64_t n = std::min(kTile, end - at);
      for (int k = written; k < K; ++k)
        walk.gather(k, views[k]->template as<const char>(), static_cast<size_t>(bytes), at, n, load,
                    reinterpret_cast<char*>(tiles[k]), sizeof(C));
      body(n, tiles);
      for (int k = 0; k < written; ++k)
        walk.scatter(k, views[k]->template as<char>(), static_cast<size_t>(bytes), at, n, store,
                     reinterpret_cast<const char*>(tiles[k]), sizeof(C));
    }
  });
}

template <class C, class Pair>
void forward(const View& out, const Halves& in) {
  const View* const views[] = {&out, &in.a, &in.b};
  each_tile<C>(views, 1, [](int64_t n, C(&t)[3][kTile]) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) t[0][i] = Pair::forward(t[1][i], t[2][i]);
  });
}

template <class C, class Pair>
void backward(const Halves& out, const View& grad, const Halves& in) {
  const View* const views[] = {&out.a, &out.b, &grad, &in.a, &in.b};
  each_tile<C>(views, 2, [](int64_t n, C(&t)[5][kTile]) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) Pair::backward(t[2][i], t[3][i], t[4][i], t[0][i], t[1][i]);
  });
}

template <class Body>
void visit_gate(DType dtype, Gate gate, const Body& body) {
  const auto with = [&]<class C>() {
    if (gate == Gate::glu)
      body.template operator()<C, GluPair<C>>();
    else
      body.template operator()<C, SwigluPair<C>>();
  };
  if (dtype == kFloat64)
    with.template operator()<double>();
  else
    with.template operator()<float>();
}

void gate_kernel(const KernelContext& context, const GateAttrs& attrs) {
  const View* const second = context.in.size() > 1 ? context.in[1] : nullptr;
  const Halves in(context.input(0), second, attrs.dim, context.op);
  if (context.output().numel == 0) return;
  visit_gate(context.output().dtype, attrs.gate,
             [&]<class C, class Pair>() { forward<C, Pair>(context.output(), in); });
}

void gate_backward_kernel(const KernelContext& context, const GateAttrs& attrs) {
  const View* const second = context.in.size() > 2 ? context.in[2] : nullptr;
  const Halves in(context.input(1), second, attrs.dim, context.op);
  const Halves out(context.output(0), second ? context.out[1] : nullptr, attrs.dim, context.op);
  if (context.input(0).numel == 0) return;
  visit_gate(context.output().dtype, attrs.gate,
             [&]<class C, class Pair>() { backward<C, Pair>(out, context.input(0), in); });
}

}  // namespace

void register_gated_cpu() {
  gate_op.set_kernel(DeviceType::cpu, gate_kernel);
  gate_backward_op.set_kernel(DeviceType::cpu, gate_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
