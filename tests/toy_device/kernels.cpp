// The toy's kernels: copy, fill, sum, the matrix product, and some pointwise functors. They are
// written to be short: every element is read and written through its dtype, one at a time, and
// computed in double, Complex<double> or int64_t.
#include "tests/toy_device/kernels.h"

#include <array>
#include <cstring>
#include <memory>

#include "tensora/ops.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tests/toy_device/memory.h"
#include "tests/toy_device/queue.h"

namespace tensora::toy {
namespace {

/// A view as the device sees it: with an address that it can follow. A number that lies on the host
/// is taken along, because the kernel runs after the op returned.
class Operand {
 public:
  explicit Operand(const View& view) : view_(view) {
    if (view.device.is_cpu()) {
      number_ = std::make_shared<Number>();
      std::memcpy(number_->data(), view.data, element_size(view.dtype));
      view_.data = number_->data();
    } else if (view.numel != 0) {
      view_.data = memory(view.device.index).local(view.data);
    }
  }

  const View& view() const { return view_; }

  template <class C>
  C load(int64_t at) const {
    return visit_element(view_.dtype, [&]<class T>() {
      const T& element = view_.as<const T>()[at];
      if constexpr (is_complex_type<T> && !is_complex_type<C>)
        return static_cast<C>(element.real());
      else if constexpr (is_complex_type<C> && !is_complex_type<T>)
        return C(static_cast<double>(element));
      else
        return static_cast<C>(element);
    });
  }
  template <class C>
  void store(int64_t at, C value) const {
    visit_element(view_.dtype, [&]<class T>() {
      if constexpr (is_complex_type<C> && is_complex_type<T>)
        view_.as<T>()[at] = T(value);
      else if constexpr (is_complex_type<C>)
        store(at, value.real());
      else if constexpr (is_complex_type<T>)
        view_.as<T>()[at] = T(Complex<double>(static_cast<double>(value)));
      else if constexpr (!std::is_arithmetic_v<T>)  // the half and 8-bit floats
        view_.as<T>()[at] = T(static_cast<float>(value));
      else if constexpr (std::is_same_v<T, bool>)
        view_.as<T>()[at] = value != 0;
      else
        view_.as<T>()[at] = static_cast<T>(value);
    });
  }

 private:
  using Number = std::array<std::byte, kMaxElementSize>;
  View view_;
  std::shared_ptr<Number> number_;
};

/// Calls body(offsets) for every element of `sizes`, with its offset under each of the strides.
template <size_t N, class Body>
void for_each_element(const Shape& sizes, const std::array<Strides, N>& strides, Body&& body) {
  if (sizes.numel() == 0) return;
  Shape index = Shape::filled(sizes.size(), 0);
  for (int64_t left = sizes.numel(); left > 0; --left) {
    std::array<int64_t, N> offsets{};
    for (size_t n = 0; n < N; ++n)
      for (int d = 0; d < sizes.size(); ++d) offsets[n] += index[d] * strides[n][d];
    body(offsets);
    for (int d = sizes.size() - 1; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
  }
}

Strides strides_within(const View& view, const Shape& sizes) {
  return broadcast_strides(view.sizes, view.strides, sizes);
}

/// Runs body<C>() with the type in which elements of a dtype are computed.
template <class Body>
void visit_compute(DType dtype, Body&& body) {
  if (is_complex(dtype))
    body.template operator()<Complex<double>>();
  else if (is_floating_point(dtype))
    body.template operator()<double>();
  else
    body.template operator()<int64_t>();
}

void copy_kernel(const KernelContext& context, const NoAttrs&) {
  const Operand from(*context.in.back()), to(context.output());
  queue(context.device.index).push([from, to] {
    const Shape& sizes = to.view().sizes;
    visit_compute(from.view().dtype, [&]<class C>() {
      for_each_element<2>(sizes, {strides_within(from.view(), sizes), to.view().strides},
                          [&](auto at) { to.store(at[1], from.load<C>(at[0])); });
    });
  });
}

void fill_kernel(const KernelContext& context, const FillAttrs& attrs) {
  const Operand out(context.output());
  queue(context.device.index).push([out, value = attrs.value] {
    visit_compute(out.view().dtype, [&]<class C>() {
      for_each_element<1>(out.view().sizes, {out.view().strides},
                          [&](auto at) { out.store(at[0], value.to<C>()); });
    });
  });
}

template <class F, class C, size_t... I>
void run_functor(const F& functor, const std::array<Operand, F::arity>& in, const Operand& out,
                 std::index_sequence<I...>) {
  const Shape& sizes = out.view().sizes;
  for_each_element<F::arity + 1>(
      sizes, {strides_within(in[I].view(), sizes)..., out.view().strides},
      [&](auto at) { out.store(at[F::arity], functor.forward(in[I].template load<C>(at[I])...)); });
}

template <class F, size_t... I>
std::array<Operand, F::arity> operands_of(const KernelContext& context, std::index_sequence<I...>) {
  return {Operand(context.input(I))...};
}

/// Any functor's kernel: the formula is the one that the CPU and CUDA compile.
template <class F>
void pointwise_kernel(const KernelContext& context, const F& functor) {
  constexpr auto operands = std::make_index_sequence<F::arity>();
  const std::array<Operand, F::arity> in = operands_of<F>(context, operands);
  const Operand out(context.output());
  queue(context.device.index).push([in, out, functor, dtype = context.compute_dtype, operands] {
    if (is_complex(dtype)) {
      if constexpr (F::complex) run_functor<F, Complex<double>>(functor, in, out, operands);
    } else if (is_floating_point(dtype)) {
      if constexpr (functors::computes_floats(F::types))
        run_functor<F, double>(functor, in, out, operands);
    } else if constexpr (functors::computes_integers(F::types)) {
      run_functor<F, int64_t>(functor, in, out, operands);
    }
  });
}

void sum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const Operand x(context.input(0)), out(context.output());
  const uint32_t mask = reduced_mask(attrs.dim, x.view().dim(), context.op);
  Shape kept, summed;
  Strides kept_from, kept_to, summed_from;
  for (int d = 0, next = 0; d < x.view().dim(); ++d) {
    const bool is_summed = mask >> d & 1;
    (is_summed ? summed : kept).push_back(x.view().sizes[d]);
    (is_summed ? summed_from : kept_from).push_back(x.view().strides[d]);
    if (!is_summed) kept_to.push_back(out.view().strides[next]);
    if (!is_summed || attrs.keepdim) ++next;
  }
  queue(context.device.index).push([=] {
    visit_compute(out.view().dtype, [&]<class C>() {
      for_each_element<2>(kept, {kept_from, kept_to}, [&](auto at) {
        C total = 0;
        for_each_element<1>(summed, {summed_from},
                            [&](auto inner) { total += x.load<C>(at[0] + inner[0]); });
        out.store(at[1], total);
      });
    });
  });
}

// out[…, i, j] = Σ_k a[…, i, k] · b[…, k, j]
void matmul_kernel(const KernelContext& context, const NoAttrs&) {
  const Operand a(context.input(0)) /* B.. M K */, b(context.input(1)) /* B.. K N */,
      out(context.output()) /* B.. M N */;
  queue(context.device.index).push([a, b, out] {
    const Shape& sizes = out.view().sizes;
    const int64_t inner = a.view().sizes.back();
    // Every operand with the shape of the result, its own inner dim taken out.
    Shape a_sizes = a.view().sizes, b_sizes = b.view().sizes;
    a_sizes[a_sizes.size() - 1] = 1;
    b_sizes[b_sizes.size() - 2] = 1;
    const Strides a_strides = broadcast_strides(a_sizes, a.view().strides, sizes);
    const Strides b_strides = broadcast_strides(b_sizes, b.view().strides, sizes);
    const int64_t a_step = a.view().strides.back();
    const int64_t b_step = b.view().strides[b.view().dim() - 2];
    visit_compute(out.view().dtype, [&]<class C>() {
      for_each_element<3>(sizes, {a_strides, b_strides, out.view().strides}, [&](auto at) {
        C total = 0;
        for (int64_t k = 0; k < inner; ++k)
          total += a.load<C>(at[0] + k * a_step) * b.load<C>(at[1] + k * b_step);
        out.store(at[2], total);
      });
    });
  });
}

}  // namespace

void register_kernels() {
  const DeviceType toy = Device("toy").type;
  copy_op.set_kernel(toy, copy_kernel);
  fill_op.set_kernel(toy, fill_kernel);
  sum_op.set_kernel(toy, sum_kernel);
  matmul_op.set_kernel(toy, matmul_kernel);
  const auto set = [&]<class... F>() {
    (pointwise_op<F>().set_kernel(toy, pointwise_kernel<F>), ...);
  };
  using namespace functors;
  set.template operator()<Add, Sub, Mul, Div, DivTrunc, FloorDivide, Neg, Exp, Sqrt, Tanh, Relu, Gt,
                          Le, Ne, Isnan, Where, Conj>();
}

}  // namespace tensora::toy
