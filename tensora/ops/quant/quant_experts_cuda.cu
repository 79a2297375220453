#include <algorithm>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/quant/quant_experts_any.h"
#include "tensora/ops/quant/quant_experts_many.h"
#include "tensora/ops/quant/quant_experts_one.h"
#include "tensora/ops/quant/quant_experts_op.h"
#include "tensora/ops/quant/quant_experts_rows.cuh"
#include "tensora/ops/quant/quant_experts_several.h"

namespace tensora::cuda {

OneTokenExperts one_token_experts(DType weight) {
  for (const auto find : {one_token_blocks, one_token_k_blocks, one_token_tables, one_token_plain})
    if (const OneTokenExperts found = find(weight); found.launch) return found;
  return {};
}

ManyExperts many_experts(DType weight) {
  for (const auto find : {many_blocks, many_k_blocks, many_tables, many_plain})
    if (const ManyExperts found = find(weight); found.launch) return found;
  return {};
}

SeveralExperts several_experts(DType weight) {
  for (const auto find : {several_blocks, several_k_blocks})
    if (const SeveralExperts found = find(weight); found.launch) return found;
  return {};
}

namespace {

using A = QuantExpertsAttrs;

/// A stack of the experts' matrices.
struct Stack {
  const char* data;
  const float* scale;
  int64_t row_bytes;
  int rows, k;  // of an expert's matrix
  DType dtype;

  bool is_aligned(int align) const {
    return (reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(row_bytes)) %
               static_cast<uintptr_t>(align) ==
           0;
  }
};

int padded_to(int numbers, int chunk) { return (numbers + chunk - 1) / chunk * chunk; }

class ExpertLayer {
 public:
  ExpertLayer(const KernelContext& context, const A& attrs)
      : op_(context.op),
        device_(context.device.index),
        experts_(static_cast<int>(attrs.experts)),
        x_(context.input(0)),
        chosen_(context.input(A::kChosen)),
        weights_(context.input(A::kWeights).as<const float>()),
        residual_(optional_input(context, A::kResidual)),
        out_(context.output()),
        gate_(stack_of(context, A::kGate, A::kGateScale)),
        up_(stack_of(context, A::kUp, A::kUpScale)),
        down_(stack_of(context, A::kDown, A::kDownScale)),
        kind_(attrs.activation == Activation::silu ? RowsCall::Gate::silu
                                                   : RowsCall::Gate::gelu_tanh) {
    constexpr int64_t kMost = int64_t{1} << 30;
    check(chosen_.numel < kMost && attrs.experts <= 4096 && x_.sizes[1] < kMost, op_,
          ": at most 4096 experts and 2^30 rows and columns fit on cuda");
    tokens_ = static_cast<int>(x_.sizes[0]);
    used_ = static_cast<int>(chosen_.sizes[1]);
  }

  void run() const {
    if (used_ == 0) return sum({}, nullptr, 1);
    // The kernels for many rows take as long for a few tokens as these for seven.
    constexpr int kFewTokens = 6, kSeveralPairs = 64;
    if (tokens_ > 1 && pairs() <= kSeveralPairs && several_rows()) return;
    if (tokens_ <= kFewTokens && few_tokens()) return;
    if (!many_rows()) any_rows();
  }

 private:
  Stack stack_of(const KernelContext& context, size_t at, size_t scale_at) const {
    const View& all = context.input(at);
    const View* const scale = optional_input(context, scale_at);
    return {.data = all.as<const char>(),
            .scale = scale ? scale->as<const float>() : nullptr,
            .row_bytes = bytes_of(all.dtype, all.sizes[1]),
            .rows = static_cast<int>(all.sizes[0] / experts_),
            .k = static_cast<int>(all.sizes[1]),
            .dtype = all.dtype};
  }

  /// Whether the fast kernels, which want 16 bits and one dtype of gate and up, suit the call.
  template <class Kernels>
  bool fits(const Kernels& first, const Kernels& second) const {
    const bool known = first.launch && second.launch && gate_.dtype == up_.dtype;
    return known && x_.dtype != DType::float32 && (!first.half || x_.dtype == DType::float16) &&
           gate_.is_aligned(first.align) && up_.is_aligned(first.align) &&
           down_.is_aligned(second.align) && gate_.row_bytes < 1 << 30 &&
           down_.row_bytes < 1 << 30 && gate_.k > 0 && gate_.rows > 0;
  }

  static DType sixteen_bits(bool half) { return half ? DType::float16 : DType::bfloat16; }

  ExpertsRow row_of(const Stack& stack) const {
    ExpertsRow call;
    call.row.count = 1;
    call.row.rows = 1;
    call.row.weights[0] = {
        .data = stack.data, .scale = stack.scale, .row_bytes = stack.row_bytes, .rows = stack.rows};
    call.experts = experts_;
    call.used = used_;
    call.k = stack.k;
    return call;
  }

  // See Note [One token's experts]. Several tokens follow one another.
  bool few_tokens() const {
    const OneTokenExperts first = one_token_experts(gate_.dtype);
    const OneTokenExperts second = one_token_experts(down_.dtype);
    if (!fits(first, second) || x_.dtype != sixteen_bits(first.half) || gate_.k % 8 != 0 ||
        gate_.k > kMostNumbers || reinterpret_cast<uintptr_t>(x_.data) % 16 != 0)
      return false;
    const int padded = padded_to(down_.k, second.chunk);
    const Scratch inner(device_, static_cast<size_t>(used_) * static_cast<size_t>(padded) * 2);
    ExpertsRow gated = row_of(gate_), down = row_of(down_);
    down.row.x = inner.data();
    down.row.x_dtype = sixteen_bits(second.half);
    down.row.k = used_ * padded;
    down.row.out_dtype = out_.dtype;
    down.row.columns = down_.rows;
    if (!second.fits(down)) return false;
    if (padded != down_.k)
      check_cuda(cudaMemsetAsync(inner.data(), 0, static_cast<size_t>(used_ * padded) * 2,
                                 current_stream(device_)),
                 "cudaMemsetAsync");
    gated.row.weights[0].up = up_.data;
    gated.row.weights[0].up_scale = up_.scale;
    gated.row.x_dtype = x_.dtype;
    gated.row.k = gate_.k;
    gated.row.out = inner.data();
    gated.row.out_dtype = down.row.x_dtype;
    gated.row.gate = kind_;
    gated.row.begins_late = true;
    gated.stride = padded;
    for (int64_t token = 0; token < tokens_; ++token) {
      gated.chosen = down.chosen = chosen_.as<const long long>() + token * used_;
      gated.shares = weights_ + token * used_;
      gated.row.x = x_.as<const char>() + bytes_of(x_.dtype, token * gate_.k);
      down.row.out = out_.as<char>() + bytes_of(out_.dtype, token * down_.rows);
      if (residual_) {
        down.row.residual_dtype = residual_->dtype;
        down.row.residual =
            residual_->as<const char>() + bytes_of(residual_->dtype, token * down_.rows);
      }
      first.launch(op_, device_, gated);
      second.launch(op_, device_, down);
    }
    return true;
  }

  /// Memory for the list of tiles, and the list.
  struct Sorted {
    Sorted(const ExpertLayer& layer, int width)
        : rows{.most = std::min(layer.pairs(), layer.experts_) + layer.pairs() / width,
               .width = width},
          memory(layer.device_, static_cast<size_t>(rows.most) * sizeof(ExpertTile) +
                                    static_cast<size_t>(layer.pairs()) * sizeof(int)) {
      rows.tiles = reinterpret_cast<ExpertTile*>(memory.data());
      rows.place = reinterpret_cast<int*>(rows.tiles + rows.most);
      Launch{layer.op_, layer.device_, static_cast<unsigned>(layer.experts_) * 8}(
          sort_expert_rows, dim3(1), dim3(kSortThreads), layer.chosen_.as<const long long>(),
          layer.pairs(), layer.experts_, rows);
    }
    size_t total() const {
      return static_cast<size_t>(rows.most) * static_cast<size_t>(rows.width);
    }
    ExpertRows rows;
    Scratch memory;
  };
  int pairs() const { return tokens_ * used_; }

  ExpertsGather gather_of(const ExpertRows& rows, char* out) const {
    return {.x = x_.as<const char>(),
            .x_dtype = x_.dtype,
            .place = rows.place,
            .used = used_,
            .width = rows.width,
            .k = gate_.k,
            .out = out};
  }

  static ExpertsProduct product_of(const Stack& stack, const ExpertRows& rows, const char* x,
                                   char* out) {
    return {.weight = stack.data,
            .scale = stack.scale,
            .row_bytes = stack.row_bytes,
            .rows = stack.rows,
            .k = stack.k,
            .tiles = rows.tiles,
            .most = rows.most,
            .width = rows.width,
            .x = x,
            .out = out};
  }

  void gather(PanelOrder order, const ExpertsGather& call) const {
    const dim3 grid(static_cast<unsigned>(pairs()),
                    static_cast<unsigned>((call.panels * 2 + 127) / 128));
    const auto kernel = order == PanelOrder::sixteen  ? gather_panels<PanelOrder::sixteen>
                        : order == PanelOrder::eight  ? gather_panels<PanelOrder::eight>
                        : order == PanelOrder::halves ? gather_panels<PanelOrder::halves>
                                                      : gather_panels<PanelOrder::pairs>;
    Launch{op_, device_}(kernel, grid, dim3(128), call);
  }

  // Parts of k, so that the down product's blocks fill the device several times.
  int splits_for(const ExpertRows& rows, int chunk) const {
    constexpr int kWeightRows = 192, kLeastChunks = 8, kTimes = 5;
    const int blocks = (down_.rows + kWeightRows - 1) / kWeightRows * rows.most;
    const int wanted = (kTimes * device_info(device_).multiprocessors + blocks - 1) / blocks;
    return std::clamp((down_.k + chunk - 1) / chunk / kLeastChunks, 1, std::max(1, wanted));
  }

  // See Note [A few rows per expert].
  bool several_rows() const {
    constexpr int kNarrow = 4, kWide = 8;
    const SeveralExperts first = several_experts(gate_.dtype),
                         second = several_experts(down_.dtype);
    if (!first.launch || !second.launch || gate_.dtype != up_.dtype || !runs_sm90a(device_) ||
        x_.dtype != DType::bfloat16 || gate_.k % 8 != 0 || down_.k % 8 != 0 ||
        reinterpret_cast<uintptr_t>(x_.data) % 16 != 0 || !gate_.is_aligned(first.align) ||
        !up_.is_aligned(first.align) || !down_.is_aligned(second.align) ||
        gate_.row_bytes >= 1 << 28 || down_.row_bytes >= 1 << 28 || gate_.k <= 0 || gate_.rows <= 0)
      return false;
    const auto fits = [&](int width) {
      return first.fits(width, gate_.k) && second.fits(width, down_.k);
    };
    if (!fits(kNarrow)) return false;
    const Sorted sorted(*this, fits(kWide) ? kWide : kNarrow);
    const ExpertRows& rows = sorted.rows;
    // Each tile has a block.
    if (rows.most > device_info(device_).multiprocessors) return false;
    const Scratch inner(device_, sorted.total() * static_cast<size_t>(down_.k) * 2);
    const Scratch products(device_, sorted.total() * static_cast<size_t>(down_.rows) * 4);
    ExpertsSeveral gated = several_of(gate_, rows);
    gated.row.weights[0].up = up_.data;
    gated.row.weights[0].up_scale = up_.scale;
    gated.row.gate = kind_;
    gated.row.x = x_.as<const char>();
    gated.row.out = inner.data();
    gated.row.out_dtype = DType::bfloat16;
    gated.place = rows.place;
    first.launch(op_, device_, gated);
    ExpertsSeveral down = several_of(down_, rows);
    down.row.x = inner.data();
    down.row.out = products.data();
    down.row.out_dtype = DType::float32;
    second.launch(op_, device_, down);
    sum(rows, products.data(), 1);
    return true;
  }

  ExpertsSeveral several_of(const Stack& stack, const ExpertRows& rows) const {
    ExpertsSeveral call;
    call.row = row_of(stack).row;
    call.row.k = stack.k;
    call.row.columns = stack.rows;
    call.tiles = rows.tiles;
    call.most = rows.most;
    call.width = rows.width;
    call.used = used_;
    call.pairs = pairs();
    return call;
  }

  // See Note [Many rows per expert].
  bool many_rows() const {
    if (!runs_sm90a(device_)) return false;
    const ManyExperts first = many_experts(gate_.dtype), second = many_experts(down_.dtype);
    if (!fits(first, second)) return false;
    const Sorted sorted(*this, kManyExpertRows);
    const ExpertRows& rows = sorted.rows;
    const int panels = padded_to(gate_.k, first.chunk) / kPanel;
    const int inner_panels = padded_to(down_.k, second.chunk) / kPanel;
    const Scratch x(device_, sorted.total() * static_cast<size_t>(panels) * 128);
    ExpertsGather all = gather_of(rows, x.data());
    all.panels = panels;
    all.out_dtype = sixteen_bits(first.half);
    gather(first.order, all);
    const Scratch inner(device_, sorted.total() * static_cast<size_t>(inner_panels) * 128);
    ExpertsProduct gated = product_of(gate_, rows, x.data(), inner.data());
    gated.up = up_.data;
    gated.up_scale = up_.scale;
    gated.panels = panels;
    gated.out_panels = inner_panels;
    gated.out_order = second.order;
    gated.out_dtype = sixteen_bits(second.half);
    gated.gate = kind_;
    first.launch(op_, device_, gated);
    const int splits = splits_for(rows, second.chunk);
    const Scratch products(device_, sorted.total() * static_cast<size_t>(down_.rows) *
                                        static_cast<size_t>(splits) * 4);
    ExpertsProduct down = product_of(down_, rows, inner.data(), products.data());
    down.panels = inner_panels;
    down.splits = splits;
    second.launch(op_, device_, down);
    sum(rows, products.data(), splits);
    return true;
  }

  // Float32 rows and plain arithmetic, for all else.
  void any_rows() const {
    const Sorted sorted(*this, kAnyExpertRows);
    const ExpertRows& rows = sorted.rows;
    const auto floats = [&](int columns) {
      return std::max<size_t>(4, sorted.total() * static_cast<size_t>(columns) * 4);
    };
    const Scratch x(device_, floats(gate_.k)), gate(device_, floats(gate_.rows)),
        up(device_, floats(gate_.rows)), products(device_, floats(down_.rows));
    Launch{op_, device_}(gather_floats, dim3(static_cast<unsigned>(pairs())), dim3(kThreads),
                         gather_of(rows, x.data()));
    if (gate_.rows > 0) {
      any_experts(op_, device_, gate_.dtype, product_of(gate_, rows, x.data(), gate.data()));
      any_experts(op_, device_, up_.dtype, product_of(up_, rows, x.data(), up.data()));
      Launch{op_, device_}(gate_floats, dim3(static_cast<unsigned>(sorted.total())), dim3(kThreads),
                           reinterpret_cast<float*>(gate.data()),
                           reinterpret_cast<const float*>(up.data()), rows.tiles, rows.width,
                           gate_.rows, kind_);
    }
    any_experts(op_, device_, down_.dtype, product_of(down_, rows, gate.data(), products.data()));
    sum(rows, products.data(), 1);
  }

  void sum(const ExpertRows& rows, const char* products, int splits) const {
    ExpertsSum call{.products = reinterpret_cast<const float*>(products),
                    .weights = weights_,
                    .place = rows.place,
                    .out = out_.as<char>(),
                    .out_dtype = out_.dtype,
                    .split_stride = int64_t{rows.most} * rows.width * down_.rows,
                    .splits = splits,
                    .used = used_,
                    .columns = down_.rows};
    if (residual_) {
      call.residual = residual_->data;
      call.residual_dtype = residual_->dtype;
    }
    Launch{op_, device_}(sum_experts,
                         dim3(static_cast<unsigned>(tokens_),
                              static_cast<unsigned>((down_.rows + kThreads - 1) / kThreads)),
                         dim3(kThreads), call);
  }

  const std::string_view op_;
  const int device_, experts_;
  const View &x_, &chosen_;
  const float* const weights_;
  const View* const residual_;
  const View& out_;
  const Stack gate_, up_, down_;
  const RowsCall::Gate kind_;
  int tokens_ = 0, used_ = 0;
};

void quant_experts_kernel(const KernelContext& context, const A& attrs) {
  if (context.output().numel > 0) ExpertLayer(context, attrs).run();
}

}  // namespace

void register_quant_experts_cuda() {
  quant_experts_op.set_kernel(DeviceType::cuda, quant_experts_kernel);
}

}  // namespace tensora::cuda
