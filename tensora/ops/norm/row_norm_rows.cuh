#pragma once

// What the kernels of layer_norm, rms_norm and of their gradients share.

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/norm/held_rows.cuh"
#include "tensora/ops/norm/row_norm.h"
#include "tensora/ops/random/random_values.h"

namespace tensora::cuda {

/// A weight or a bias, if there is one.
struct ParameterArray {
  const char* data;
  DType dtype;

  /// kPack elements from position `at` on.
  template <int kPack, class C>
  __device__ void load(long long at, C (&to)[kPack]) const {
    const auto load_as = [&]<class T>() {
      load_pack<T>(data + at * static_cast<long long>(sizeof(T)), to);
    };
    if (dtype == DType::float32)
      load_as.template operator()<float>();
    else if (dtype == DType::bfloat16)
      load_as.template operator()<BFloat16>();
    else if (dtype == DType::float16)
      load_as.template operator()<Half>();
    else
      load_as.template operator()<double>();
  }
};

/// Which elements of the input are kept, and by what they are multiplied. Element i of the whole
/// array has the word that bernoulli gives it: see Note [Lanes] in core/philox.h.
struct Dropping {
  Bernoulli keep;
  const ReplayRandom* replay;
  double factor;
  bool active;

  // Not inlined: its registers would be taken from rows that drop nothing.
  __device__ __noinline__ double factor_of(long long i) const {
    constexpr int kBlock = kPhiloxLanes * 4;
    const long long counter = i / kBlock * kPhiloxLanes + i % kPhiloxLanes;
    const PhiloxWords words = words_of(keep, replay, counter);
    float kept[4];
    keep.values(words.word, kept);
    return kept[i % kBlock / kPhiloxLanes] != 0 ? factor : 0;
  }
};

inline Dropping dropping_of(const KernelContext& context, double p, uint64_t seed,
                            uint64_t offset) {
  Dropping dropping{};
  dropping.keep = Bernoulli{seed, offset, 1 - p};
  dropping.factor = p < 1 ? 1 / (1 - p) : 0;
  dropping.active = p > 0;
  if (dropping.active) dropping.replay = replay_of(context, dropping.keep);
  return dropping;
}

template <class C>
struct PairOf {
  C first, second;
};
template <unsigned kGroup, class C>
__device__ inline PairOf<C> sums_across(C first, C second) {
  return across_group<kGroup>(PairOf<C>{first, second}, [](PairOf<C> a, PairOf<C> b) {
    return PairOf<C>{a.first + b.first, a.second + b.second};
  });
}

/// A row as it lies in memory, held as `Row` is: fetched, and converted later. See
/// Note [Fetch first, convert later].
template <class Row>
struct RawRow {
  RawGroup packs[Row::kPacks];

  __device__ void fetch_row(const char* row, const RowArray& array, unsigned lane, int length) {
    const bool wide = array.dtype == DType::float32;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const int at = Row::position(p, lane);
      if (at >= length) continue;
      if constexpr (Row::kPack == 8) {
        fetch<16>(row + at * 2, packs[p]);
      } else if constexpr (Row::kPack == 4) {
        wide ? fetch<16>(row + at * 4, packs[p]) : fetch<8>(row + at * 2, packs[p]);
      } else if (array.dtype == DType::float64) {
        fetch<8>(row + at * array.step, packs[p]);
      } else {
        wide ? fetch<4>(row + at * array.step, packs[p])
             : fetch<2>(row + at * array.step, packs[p]);
      }
    }
  }
  /// Pack p, which lies within the row.
  template <class C>
  __device__ void convert(const RowArray& array, int p, C (&to)[Row::kPack]) const {
    visit_row_dtype<Row::kPack>(array.dtype, [&]<class T>() {
#pragma unroll
      for (int i = 0; i < Row::kPack; ++i) to[i] = load_value<C>(element_of<T>(packs[p], i));
    });
  }
  /// Beyond the end of the row the values are 0.
  __device__ void convert_row(const RowArray& array, unsigned lane, int length, Row& to) const {
    to.each([](int, int, typename Row::Value& value) { value = 0; });
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p)
      if (Row::position(p, lane) < length) convert(array, p, to.values[p]);
  }
};

/// `view` with its last `count` dims as one; nothing if they do not lie in one run.
inline std::optional<View> with_rows(View view, int count) {
  int64_t length = 1, step = 1;
  for (int d = view.dim() - 1; d >= view.dim() - count; --d) {
    if (view.sizes[d] != 1 && view.numel != 0) {
      if (length == 1) step = view.strides[d];
      if (view.strides[d] != step * length) return {};
    }
    length *= view.sizes[d];
  }
  const int outer = view.dim() - count;
  view.sizes.resize(outer);
  view.strides.resize(outer);
  view.sizes.push_back(length);
  view.strides.push_back(step);
  view.update();
  return view;
}

/// The input as an array of rows; copied if its rows do not lie in runs.
class RowsInput {
 public:
  RowsInput(const KernelContext& context, const View* view, int row_dims) {
    if (!view) return;
    if (const std::optional<View> rows = with_rows(*view, row_dims)) {
      view_ = *rows;
    } else {
      scratch_.emplace(context.device.index, view->bytes());
      View copy = *view;
      copy.data = scratch_->data();
      copy.strides = contiguous_strides(view->sizes);
      copy.update();
      copy_elements(context.op, *view, copy);
      view_ = *with_rows(copy, row_dims);
    }
    given_ = true;
  }
  bool given() const { return given_; }
  const View& view() const { return view_; }

 private:
  std::optional<Scratch> scratch_;
  View view_;
  bool given_ = false;
};

/// A parameter as a contiguous array; copied if it is not one.
class ParameterInput {
 public:
  ParameterInput(const KernelContext& context, const View* view) {
    if (!view) return;
    array_ = {view->as<const char>(), view->dtype};
    if (view->contiguous) return;
    scratch_.emplace(context.device.index, view->bytes());
    View copy = *view;
    copy.data = scratch_->data();
    copy.strides = contiguous_strides(view->sizes);
    copy.update();
    copy_elements(context.op, *view, copy);
    array_.data = scratch_->data();
  }
  const ParameterArray& array() const { return array_; }
  bool takes_packs() const { return reinterpret_cast<uintptr_t>(array_.data) % 16 == 0; }

 private:
  std::optional<Scratch> scratch_;
  ParameterArray array_{};
};

inline const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

}  // namespace tensora::cuda
