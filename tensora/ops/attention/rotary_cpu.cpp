// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/attention/rotary.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Leading dims of a tensor, in steps of each array; a table's steps are 0 where it broadcasts.
struct RowWalk {
  Shape sizes;
  Strides x, out, table;

  RowWalk(const View& from, const View& to, const View& cos) {
    sizes = from.sizes;
    sizes.resize(from.dim() - 1);
    x = from.strides;
    out = to.strides;
    Shape table_sizes = cos.sizes;
    Strides table_strides = cos.strides;
    for (Strides* strides : {&x, &out, &table_strides}) strides->resize(strides->size() - 1);
    table_sizes.resize(cos.dim() - 1);
    table = broadcast_strides(table_sizes, table_strides, sizes);
  }
  struct Place {
    int64_t x = 0, out = 0, table = 0;
  };
  Place at(int64_t row) const {
    Place place;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      const int64_t i = row % sizes[d];
      row /= sizes[d];
      place.x += i * x[d];
      place.out += i * out[d];
      place.table += i * table[d];
    }
    return place;
  }
};

template <class C>
void turn_row(C* row, C* turned, const C* cos, const C* sin, int64_t half, C sign,
              bool interleaved) {
  if (interleaved) {
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const C a = row[2 * i], b = row[2 * i + 1], s = sign * sin[i];
      turned[2 * i] = a * cos[i] - b * s;
      turned[2 * i + 1] = b * cos[i] + a * s;
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const C a = row[i], b = row[half + i], s = sign * sin[i];
      turned[i] = a * cos[i] - b * s;
      turned[half + i] = b * cos[i] + a * s;
    }
  }
}

template <class C>
void turn(const View& x, const View& cos, const View& sin, const View& out,
          const RotaryAttrs& attrs) {
  if (x.numel == 0) return;
  const int64_t size = x.sizes[x.dim() - 1], half = cos.sizes[cos.dim() - 1];
  const RowWalk walk(x, out, cos), sin_walk(x, out, sin);
  const LoadFn load = load_fn<C>(x.dtype), load_table = load_fn<C>(cos.dtype);
  const StoreFn store = store_fn<C>(out.dtype);
  const auto bytes = static_cast<int64_t>(element_size(x.dtype));
  const auto table_bytes = static_cast<int64_t>(element_size(cos.dtype));
  const C sign = attrs.inverse ? C(-1) : C(1);
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(size, 1));
  parallel_for(x.numel / size, grain, [&](int64_t begin, int64_t end) {
    std::vector<C> memory(static_cast<size_t>(2 * size + 2 * half));
    C *const row = memory.data(), *const turned = row + size, *const c = turned + size,
             *const s = c + half;
    for (int64_t i = begin; i < end; ++i) {
      const RowWalk::Place at = walk.at(i);
      const int64_t sin_at = sin_walk.at(i).table;
      load(x.as<const char>() + at.x * bytes, x.strides[x.dim() - 1], size, row);
      load_table(cos.as<const char>() + at.table * table_bytes, cos.strides[cos.dim() - 1], half,
                 c);
      load_table(sin.as<const char>() + sin_at * table_bytes, sin.strides[sin.dim() - 1], half, s);
      turn_row(row, turned, c, s, half, sign, attrs.interleaved);
      std::copy(row + 2 * half, row + size, turned + 2 * half);
      store(turned, out.as<char>() + at.out * bytes, out.strides[out.dim() - 1], size);
    }
  });
}

void rotary_kernel(const KernelContext& context, const RotaryAttrs& attrs) {
  for (size_t i = 0; i < context.out.size(); ++i) {
    const View &x = context.input(2 + i), &out = context.output(i);
    if (out.dtype == DType::float64)
      turn<double>(x, context.input(0), context.input(1), out, attrs);
    else
      turn<float>(x, context.input(0), context.input(1), out, attrs);
  }
}

}  // namespace

void register_rotary_cpu() { rotary_op.set_kernel(DeviceType::cpu, rotary_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
