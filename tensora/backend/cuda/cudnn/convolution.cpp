#include "tensora/backend/cuda/cudnn/convolution.h"

#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "tensora/backend/cuda/cudnn/graph.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/settings.h"
#include "tensora/core/determinism.h"

namespace tensora::cuda::cudnn {
namespace {

constexpr size_t kMaxPlans = 1024;  // per thread; more than any network needs
constexpr size_t kCandidates = 8;   // that are timed

std::atomic<bool>& tuning() {
  static std::atomic<bool> on = switch_setting("TENSORA_CUDA_TUNE_CONV", false);
  return on;
}
bool tunes_now() { return convolution_tuning() && !is_deterministic() && !current_capture(); }

struct Counters {
  std::atomic<int64_t> made{0}, reused{0}, timed{0}, dropped{0};
};
Counters& counters() {
  static Counters all;
  return all;
}

// ---- layouts -----------------------------------------------------------------------------------

// Row-major, or with dim 1 innermost.
Strides strides_for(const Shape& sizes, bool channels_last) {
  if (!channels_last) return contiguous_strides(sizes);
  Strides strides = sizes;
  int64_t step = 1;
  const auto place = [&](int d) {
    strides[d] = step;
    step *= sizes[d];
  };
  place(1);
  for (int d = sizes.size() - 1; d >= 2; --d) place(d);
  place(0);
  return strides;
}

/// The same array with exactly the strides of a layout; strides of dims of one element are free.
bool fits(const View& view, const Strides& strides) {
  for (int d = 0; d < view.dim(); ++d)
    if (view.sizes[d] != 1 && view.strides[d] != strides[d]) return false;
  return true;
}

/// An array in the layout that cuDNN gets: itself, or scratch memory.
class LaidOut {
 public:
  LaidOut(const Convolution& args, const View& view, bool is_result)
      : original_(view), view_(view), is_result_(is_result) {
    view_.strides = strides_for(view.sizes, args.channels_last);
    view_.update();
    if (fits(view, view_.strides)) return;
    copy_.emplace(args.device, view.bytes());
    view_.data = copy_->data();
    if (!is_result) copy_elements(args.op, view, view_);
  }
  const View& view() const { return view_; }
  void finish(std::string_view op) const {
    if (is_result_ && copy_) copy_elements(op, view_, original_);
  }

 private:
  View original_, view_;
  bool is_result_;
  std::optional<Scratch> copy_;
};

// cuDNN knows images and volumes: a line is an image of height 1.
View as_image(View view) {
  if (view.dim() > 3) return view;
  view.sizes.insert(2, 1);
  view.strides.insert(2, view.sizes[3] * view.strides[2]);
  view.update();
  return view;
}

Convolution as_images(Convolution args) {
  if (args.x.dim() > 3) return args;
  for (View* view : {&args.x, &args.w, &args.y}) *view = as_image(*view);
  args.stride.insert(0, 1);
  args.padding.insert(0, 0);
  args.dilation.insert(0, 1);
  return args;
}

// ---- plans -------------------------------------------------------------------------------------

constexpr TensorId kX = 1, kW = 2, kY = 3;  // in the order in which a graph gets them

int64_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return static_cast<int64_t>(std::min<uintptr_t>(16, bits & -bits));
}

/// Everything that a plan depends on.
using Key = std::array<int64_t, 48>;

Key key_of(const Convolution& args, bool accumulate) {
  Key key{};
  size_t at = 0;
  const auto add = [&](int64_t value) { key[at++] = value; };
  const auto add_all = [&](const Shape& values) {
    for (int d = 0; d < 5; ++d) add(d < values.size() ? values[d] : 0);
  };
  for (const View* view : {&args.x, &args.w, &args.y}) {
    add_all(view->sizes);
    add(alignment_of(view->data));
  }
  for (const Shape* values : {&args.stride, &args.padding, &args.dilation}) add_all(*values);
  const int64_t bits[] = {accumulate, args.channels_last, tf32_allowed(), is_deterministic(),
                          tunes_now()};
  for (int64_t bit : bits) add(bit);
  add(static_cast<int64_t>(args.pass));
  add(static_cast<int64_t>(args.x.dtype));
  add(args.device);
  return key;
}

struct PassAttributes {
  Kind kind;
  Attribute alpha, beta, convolution, x, w, y;
};

PassAttributes attributes_of(ConvolutionPass pass) {
  using A = Attribute;
  switch (pass) {
    case ConvolutionPass::backward_data:
      return {Kind::convolution_backward_data,
              A::backward_data_alpha,
              A::backward_data_beta,
              A::backward_data_convolution,
              A::backward_data_dx,
              A::backward_data_w,
              A::backward_data_dy};
    case ConvolutionPass::backward_filter:
      return {Kind::convolution_backward_filter,
              A::backward_filter_alpha,
              A::backward_filter_beta,
              A::backward_filter_convolution,
              A::backward_filter_x,
              A::backward_filter_dw,
              A::backward_filter_dy};
    default:
      return {Kind::convolution_forward,
              A::forward_alpha,
              A::forward_beta,
              A::forward_convolution,
              A::forward_x,
              A::forward_w,
              A::forward_y};
  }
}

std::vector<Plan> make_plans(const Convolution& args, bool accumulate, size_t most) {
  Graph graph(args.op);
  const DataType dtype = data_type(args.x.dtype, args.op);
  for (const View* view : {&args.x, &args.w, &args.y})
    graph.tensor({.dtype = dtype,
                  .sizes = view->sizes,
                  .strides = view->strides,
                  .alignment = alignment_of(view->data)});
  const bool wide = args.x.dtype == DType::float64;
  Descriptor& how = graph.add_settings(Kind::convolution);
  how.set(Attribute::convolution_compute_type, wide ? DataType::float64 : DataType::float32);
  how.set(Attribute::convolution_mode, ConvolutionMode::cross_correlation);
  how.set(Attribute::convolution_spatial_dims, static_cast<int64_t>(args.stride.size()));
  how.set(Attribute::convolution_strides, std::span<const int64_t>(args.stride));
  how.set(Attribute::convolution_dilations, std::span<const int64_t>(args.dilation));
  how.set(Attribute::convolution_pre_paddings, std::span<const int64_t>(args.padding));
  how.set(Attribute::convolution_post_paddings, std::span<const int64_t>(args.padding));
  how.finalize();
  const PassAttributes names = attributes_of(args.pass);
  Descriptor& operation = graph.add_operation(names.kind);
  operation.set(names.convolution, how);
  operation.set(names.x, graph.descriptor(kX));
  operation.set(names.w, graph.descriptor(kW));
  operation.set(names.y, graph.descriptor(kY));
  if (wide) {
    operation.set(names.alpha, 1.0);
    operation.set(names.beta, accumulate ? 1.0 : 0.0);
  } else {
    operation.set(names.alpha, 1.0f);
    operation.set(names.beta, accumulate ? 1.0f : 0.0f);
  }
  const bool tensor_cores = args.x.dtype != DType::float32 || tf32_allowed();
  return graph.plans(args.device,
                     {.deterministic = is_deterministic(), .tensor_cores = tensor_cores}, most);
}

std::array<Binding, 3> bindings_of(const Convolution& args) {
  return {{{kX, args.x.data}, {kW, args.w.data}, {kY, args.y.data}}};
}

// Shared by all threads: a shape is timed once. Candidates are in cuDNN's order, which is fixed.
size_t tuned_choice(const Convolution& args, const Key& key, std::span<const Plan> plans) {
  static std::mutex mutex;
  static auto* known = new std::map<Key, size_t>;
  const std::lock_guard lock(mutex);
  const auto found = known->find(key);
  if (found != known->end() && found->second < plans.size()) return found->second;
  if (known->size() >= kMaxPlans) known->clear();
  counters().timed.fetch_add(1, std::memory_order_relaxed);
  // A result that is added to is copied first: every run would add to it again.
  std::optional<Scratch> copy;
  std::array<Binding, 3> bindings = bindings_of(args);
  const bool accumulates = args.pass == ConvolutionPass::backward_filter;
  if (accumulates) bindings[1].data = copy.emplace(args.device, args.w.bytes()).data();
  const size_t best = fastest_plan(args.op, args.device, plans, bindings);
  (*known)[key] = best;
  return best;
}

Plan make_plan(const Convolution& args, bool accumulate, const Key& key) {
  const bool tunes = tunes_now();
  std::vector<Plan> plans = make_plans(args, accumulate, tunes ? kCandidates : 1);
  check(!plans.empty(), args.op, ": cuDNN ", library().version(), " has no engine for ",
        args.x.dtype, " input ", args.x.sizes, ", weight ", args.w.sizes, ", output ", args.y.sizes,
        ", stride ", args.stride, ", padding ", args.padding, ", dilation ", args.dilation,
        is_deterministic() ? " that is deterministic" : "");
  counters().made.fetch_add(1, std::memory_order_relaxed);
  const size_t choice = tunes && plans.size() > 1 ? tuned_choice(args, key, plans) : 0;
  return std::move(plans[choice]);
}

const Plan& find_plan(const Convolution& args, bool accumulate) {
  thread_local std::map<Key, Plan> plans;
  const Key key = key_of(args, accumulate);
  const auto found = plans.find(key);
  if (found != plans.end()) {
    counters().reused.fetch_add(1, std::memory_order_relaxed);
    return found->second;
  }
  if (plans.size() >= kMaxPlans) {
    counters().dropped.fetch_add(static_cast<int64_t>(plans.size()), std::memory_order_relaxed);
    plans.clear();
  }
  return plans.emplace(key, make_plan(args, accumulate, key)).first->second;
}

// ---- large arrays ------------------------------------------------------------------------------

View images(View view, int64_t first, int64_t count) {
  view.data =
      view.as<char>() + first * view.strides[0] * static_cast<int64_t>(element_size(view.dtype));
  view.sizes[0] = count;
  view.update();
  return view;
}

// cuDNN's engines count elements in 32 bits: more than that are computed in parts of the batch. A
// weight's gradient is then the sum of those of the parts.
void run_in_parts(const Convolution& args) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t batch = args.x.sizes[0];
  const int64_t image = std::max(args.x.numel, args.y.numel) / batch;
  const int64_t at_once = std::clamp<int64_t>(kMost / image, 1, batch);
  for (int64_t first = 0; first < batch; first += at_once) {
    const int64_t count = std::min(at_once, batch - first);
    Convolution part = args;
    part.x = images(args.x, first, count);
    part.y = images(args.y, first, count);
    const bool accumulate = first > 0 && args.pass == ConvolutionPass::backward_filter;
    find_plan(part, accumulate).run(args.op, args.device, bindings_of(part));
  }
}

}  // namespace

void convolve(const Convolution& given) {
  use_device(given.device);
  Convolution args = as_images(given);
  const LaidOut x(args, args.x, args.pass == ConvolutionPass::backward_data);
  const LaidOut w(args, args.w, args.pass == ConvolutionPass::backward_filter);
  const LaidOut y(args, args.y, args.pass == ConvolutionPass::forward);
  args.x = x.view();
  args.w = w.view();
  args.y = y.view();
  run_in_parts(args);
  for (const LaidOut* array : {&x, &w, &y}) array->finish(args.op);
}

void set_convolution_tuning(bool on) { tuning().store(on, std::memory_order_relaxed); }
bool convolution_tuning() { return tuning().load(std::memory_order_relaxed); }

ConvolutionPlanCounts convolution_plan_counts() {
  const Counters& all = counters();
  return {all.made.load(), all.reused.load(), all.timed.load(), all.dropped.load()};
}

}  // namespace tensora::cuda::cudnn
