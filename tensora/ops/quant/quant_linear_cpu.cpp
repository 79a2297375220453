// Widest instruction set: AVX-512 VNNI. See Note [One kernel, several instruction sets].
#include <optional>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/quant/normalised_rows.h"
#include "tensora/ops/quant/quant_linear_op.h"
#include "tensora/ops/quant/quant_rows.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using A = QuantLinearAttrs;

const View* optional_view(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

// The weights one below the other, and what is added to their products.
class SideBySide {
 public:
  SideBySide(const KernelContext& context, const View& x) : x_(x), out_(context.output()) {
    for (size_t i = 0; i < A::kMostWeights; ++i) {
      const View* weight = optional_view(context, A::kWeight + i);
      if (!weight) continue;
      const View* scale = optional_view(context, A::kScale + i);
      parts_[count_++] = {weight->dtype, weight_rows(*weight), total_,
                          scale ? scale->as<const float>() : nullptr};
      total_ += weight->sizes[0];
      grain_ = std::max(grain_, rows_per_task(parts_[count_ - 1].rows, x_.rows()));
      x_.prepare(weight->dtype);
    }
    bias_ = optional_view(context, A::kBias);
    residual_ = optional_view(context, A::kResidual);
  }

  void run() const {
    const int64_t together = x_.rows() == 1 ? kMostColumns : kRowsAtOnce;
    parallel_for(total_, grain_, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += together) few(at, std::min(end, at + together));
    });
  }

 private:
  static constexpr int64_t kMostColumns = 8 * kRowsAtOnce;  // that are finished together

  struct Part {
    DType dtype;
    WeightRows rows;
    int64_t begin;  // where its columns of the result begin
    const float* scale;
  };

  // Columns begin to end of the result, which may belong to several weights.
  void few(int64_t begin, int64_t end) const {
    const int64_t width = end - begin, rows = x_.rows();
    // A single row's results lie together, and are summed where they belong.
    const bool in_place = rows == 1 && out_.dtype == kFloat32;
    std::optional<HostScratch<float>> room;
    if (!in_place) room.emplace(rows * width);
    float* const sums = in_place ? out_.as<float>() + begin : room->data();
    for (int i = 0; i < count_; ++i) {
      const Part& part = parts_[i];
      const int64_t first = std::max(begin, part.begin),
                    last = std::min(end, part.begin + part.rows.rows);
      if (first >= last) continue;
      float* to = sums + first - begin;
      x_.multiply(part.dtype, part.rows, first - part.begin, last - part.begin, to, width);
      if (!part.scale) continue;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < last - first; ++j)
          to[r * width + j] *= part.scale[first - part.begin + j];
    }
    for (int64_t r = 0; r < rows; ++r) {
      add_to(r, begin, width, sums + r * width);
      if (!in_place)
        store_fn<float>(out_.dtype)(sums + r * width, address(out_, r * total_ + begin), 1, width);
    }
  }

  // Bias and residual.
  void add_to(int64_t row, int64_t begin, int64_t width, float* sums) const {
    float more[kMostColumns];
    const auto add = [&](const View& from, int64_t at) {
      load_fn<float>(from.dtype)(address(from, at), 1, width, more);
      for (int64_t j = 0; j < width; ++j) sums[j] += more[j];
    };
    if (bias_) add(*bias_, begin);
    if (residual_) add(*residual_, row * total_ + begin);
  }
  static char* address(const View& view, int64_t element) {
    return view.as<char>() + element * static_cast<int64_t>(element_size(view.dtype));
  }

  Activations x_;
  const View& out_;
  Part parts_[A::kMostWeights];
  int count_ = 0;
  int64_t total_ = 0, grain_ = 1;
  const View *bias_ = nullptr, *residual_ = nullptr;
};

void quant_linear_kernel(const KernelContext& context, const A& attrs) {
  if (context.output().numel == 0) return;
  const NormalisedRows x(context, A::kNorm, attrs.eps);
  SideBySide(context, x.view()).run();
}

}  // namespace

void register_quant_linear_cpu() {
  quant_linear_op.set_kernel(DeviceType::cpu, quant_linear_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
