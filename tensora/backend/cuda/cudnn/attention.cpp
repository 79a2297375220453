#include "tensora/backend/cuda/cudnn/attention.h"

#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <optional>

#include "tensora/backend/cuda/cudnn/graph.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/settings.h"

namespace tensora::cuda::cudnn {
namespace {

constexpr size_t kMaxPlans = 256;        // per thread
constexpr size_t kFirstVersion = 91600;  // see attend()

std::atomic<AttentionChoice>& choice() {
  static std::atomic<AttentionChoice> chosen = static_cast<AttentionChoice>(
      choice_setting("TENSORA_CUDA_ATTENTION", {"auto", "own", "cudnn"}, 0));
  return chosen;
}

struct Counters {
  std::atomic<int64_t> made{0}, runs{0};
};
Counters& counters() {
  static Counters all;
  return all;
}

// ---- graphs ------------------------------------------------------------------------------------

/// The tensors that get an address when the graph runs.
struct Ends {
  TensorId query = 0, key = 0, value = 0, result = 0, logarithms = 0, scale = 0, hidden = 0;
  // The backward only; `delta` and `sums` are memory between cuDNN's kernels.
  TensorId grad = 0, grad_query = 0, grad_key = 0, grad_value = 0, one = 0, delta = 0, sums = 0;
};

/// Note [Attention as a graph]
/// cuDNN has no op "attention" that does all of this. It is given the graph of products, pointwise
/// ops and reductions that attention consists of, recognises it as a whole and runs it by one
/// kernel (the backward by three), without the matrix of scores in memory. It recognises only the
/// order of ops that its makers' own front end writes, so this one follows that order.
class AttentionGraph {
 public:
  AttentionGraph(Graph& graph, const Attention& args) : graph_(graph), args_(args) {
    half_ = data_type(args.query.dtype, args.op);
    for (int d = 0; d < 3; ++d) rows_.push_back(args.query.sizes[d]);
    scores_ = rows_;
    scores_.push_back(args.key.sizes[2]);
    rows_.push_back(1);
    ends_.query = given(args.query);
    ends_.key = given(args.key, /*transposed=*/true);
    ends_.value = given(args.value, /*transposed=*/args.backward);
    ends_.result = given(args.result);
    ends_.logarithms = stored(rows_);
    ends_.scale = number();
    if (args.causal) ends_.hidden = number();
  }

  Ends forward() {
    const TensorId scores = visible(
        pointwise(PointwiseMode::mul, scores_, {product(ends_.query, ends_.key), ends_.scale}));
    const TensorId largest = reduction(ReductionOperator::max, scores, between(rows_));
    const TensorId powers = pointwise(PointwiseMode::exp, scores_,
                                      {pointwise(PointwiseMode::sub, scores_, {scores, largest})});
    const TensorId sum = reduction(ReductionOperator::add, powers, between(rows_));
    const TensorId logarithm = pointwise(PointwiseMode::log, rows_, {sum});
    pointwise(PointwiseMode::add, {largest, logarithm}, ends_.logarithms);
    const TensorId probabilities = between(scores_, half_);
    pointwise(PointwiseMode::div, {powers, sum}, probabilities);
    product(probabilities, ends_.value, ends_.result);
    return ends_;
  }

  Ends backward() {
    ends_.grad = given(args_.grad);
    ends_.grad_query = given(args_.grad_query);
    ends_.grad_key = given(args_.grad_key);
    ends_.grad_value = given(args_.grad_value);
    ends_.one = number();
    ends_.delta = stored(rows_);
    ends_.sums = stored(args_.query.sizes);
    const TensorId products =
        pointwise(PointwiseMode::mul, args_.result.sizes, {ends_.grad, ends_.result});
    const TensorId dots = reduction(ReductionOperator::add, products, between(rows_));
    pointwise(PointwiseMode::mul, {dots, ends_.one}, ends_.delta);

    const TensorId scaled =
        pointwise(PointwiseMode::mul, scores_, {product(ends_.query, ends_.key), ends_.scale});
    const TensorId probabilities =
        pointwise(PointwiseMode::exp, scores_,
                  {visible(pointwise(PointwiseMode::sub, scores_, {scaled, ends_.logarithms}))});
    sum_of_heads(transposed(probabilities), ends_.grad, ends_.grad_value, args_.grad_value);

    const TensorId grad_probabilities = product(ends_.grad, ends_.value);
    const TensorId less = pointwise(PointwiseMode::sub, scores_, {grad_probabilities, ends_.delta});
    const TensorId grad_scores =
        pointwise(PointwiseMode::mul, scores_,
                  {pointwise(PointwiseMode::mul, scores_, {less, probabilities}), ends_.scale});
    sum_of_heads(transposed(grad_scores), ends_.query, ends_.grad_key, args_.grad_key);

    const TensorId key = between(args_.key.sizes, half_, args_.key.strides);
    reshape(ends_.key, key);
    product(grad_scores, key, ends_.sums);
    pointwise(PointwiseMode::identity, {ends_.sums}, ends_.grad_query);
    return ends_;
  }

 private:
  TensorId given(const View& view, bool transposed = false) {
    Shape sizes = view.sizes;
    Strides strides = view.strides;
    for (int d = 0; d < 3; ++d)  // any step will do where there is none, but cuDNN refuses 0
      if (sizes[d] == 1) strides[d] = sizes[3];
    if (transposed) {
      std::swap(sizes[2], sizes[3]);
      std::swap(strides[2], strides[3]);
    }
    return graph_.tensor({.dtype = half_, .sizes = sizes, .strides = strides});
  }
  /// float32 in memory, contiguous.
  TensorId stored(const Shape& sizes) {
    return graph_.tensor({.sizes = sizes, .strides = contiguous_strides(sizes)});
  }
  /// A float32 number of the host's.
  TensorId number() {
    return graph_.tensor({.sizes = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .by_value = true});
  }
  TensorId between(const Shape& sizes, DataType dtype = DataType::float32) {
    return between(sizes, dtype, contiguous_strides(sizes));
  }
  TensorId between(const Shape& sizes, DataType dtype, const Strides& strides) {
    return graph_.tensor({.dtype = dtype, .sizes = sizes, .strides = strides, .is_virtual = true});
  }

  void product(TensorId a, TensorId b, TensorId out) {
    Descriptor& how = graph_.add_settings(Kind::matmul);
    how.set(Attribute::matmul_compute_type, DataType::float32);
    how.finalize();
    Descriptor& operation = graph_.add_operation(Kind::operation_matmul);
    operation.set(Attribute::operation_matmul_a, graph_.descriptor(a));
    operation.set(Attribute::operation_matmul_b, graph_.descriptor(b));
    operation.set(Attribute::operation_matmul_c, graph_.descriptor(out));
    operation.set(Attribute::operation_matmul_descriptor, how);
  }
  /// B H L S
  TensorId product(TensorId a, TensorId b) {
    const TensorId out = between(scores_);
    product(a, b, out);
    return out;
  }

  void pointwise(PointwiseMode mode, std::initializer_list<TensorId> in, TensorId out,
                 DataType precision = DataType::float32, std::optional<int64_t> axis = {}) {
    Descriptor& how = graph_.add_settings(Kind::pointwise);
    how.set(Attribute::pointwise_mode, mode);
    how.set(Attribute::pointwise_math_precision, precision);
    if (axis) how.set(Attribute::pointwise_axis, *axis);
    how.finalize();
    Descriptor& operation = graph_.add_operation(Kind::operation_pointwise);
    operation.set(Attribute::operation_pointwise_descriptor, how);
    constexpr Attribute kOperands[] = {Attribute::operation_pointwise_x,
                                       Attribute::operation_pointwise_b,
                                       Attribute::operation_pointwise_t};
    size_t i = 0;
    for (const TensorId operand : in) operation.set(kOperands[i++], graph_.descriptor(operand));
    operation.set(Attribute::operation_pointwise_y, graph_.descriptor(out));
  }
  TensorId pointwise(PointwiseMode mode, const Shape& sizes, std::initializer_list<TensorId> in) {
    const TensorId out = between(sizes);
    pointwise(mode, in, out);
    return out;
  }

  TensorId reduction(ReductionOperator how_to_join, TensorId in, TensorId out) {
    Descriptor& how = graph_.add_settings(Kind::reduction);
    how.set(Attribute::reduction_operator, how_to_join);
    how.set(Attribute::reduction_compute_type, DataType::float32);
    how.finalize();
    Descriptor& operation = graph_.add_operation(Kind::operation_reduction);
    operation.set(Attribute::operation_reduction_descriptor, how);
    operation.set(Attribute::operation_reduction_x, graph_.descriptor(in));
    operation.set(Attribute::operation_reduction_y, graph_.descriptor(out));
    return out;
  }

  void reshape(TensorId in, TensorId out) {
    Descriptor& operation = graph_.add_operation(Kind::operation_reshape);
    operation.set(Attribute::operation_reshape_x, graph_.descriptor(in));
    operation.set(Attribute::operation_reshape_y, graph_.descriptor(out));
  }
  /// B H S L of B H L S, in the narrow dtype
  TensorId transposed(TensorId in) {
    Shape sizes = scores_;
    Strides strides = contiguous_strides(scores_);
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
    const TensorId out = between(sizes, half_, strides);
    reshape(in, out);
    return out;
  }
  /// The gradient of key or value: heads of the query that share one are added up.
  void sum_of_heads(TensorId a, TensorId b, TensorId out, const View& array) {
    if (args_.query.sizes[1] == array.sizes[1]) return product(a, b, out);
    Shape sizes = array.sizes;
    sizes[1] = args_.query.sizes[1];
    const TensorId all = between(sizes, half_);
    product(a, b, all);
    reduction(ReductionOperator::add, all, out);
  }

  /// With the causal mask, scores of keys behind the query's position become -infinity.
  TensorId visible(TensorId scores) {
    if (!args_.causal) return scores;
    const auto index = [&](int64_t axis) {
      const TensorId out = between(scores_, DataType::int32);
      pointwise(PointwiseMode::gen_index, {scores}, out, DataType::float32, axis);
      return out;
    };
    const TensorId row = index(2), column = index(3);
    const TensorId keep = between(scores_, DataType::boolean);
    pointwise(PointwiseMode::cmp_ge, {row, column}, keep, DataType::boolean);
    return pointwise(PointwiseMode::select, scores_, {scores, ends_.hidden, keep});
  }

  Graph& graph_;
  const Attention& args_;
  DataType half_ = DataType::bfloat16;
  Shape rows_;    // B H L 1
  Shape scores_;  // B H L S
  Ends ends_;
};

// ---- plans -------------------------------------------------------------------------------------

/// What is known of the calls of one size and layout.
struct Known {
  bool asked = false;  // cuDNN, for a plan
  Ends ends = {};
  std::optional<Plan> plan = {};  // none if cuDNN has no engine
};

void make_plan(const Attention& args, Known& known) try {
  known.asked = true;
  Graph graph(args.op);
  AttentionGraph attention(graph, args);
  known.ends = args.backward ? attention.backward() : attention.forward();
  std::vector<Plan> plans = graph.plans(args.device, {});
  if (plans.empty()) return;
  known.plan.emplace(std::move(plans.front()));
  counters().made.fetch_add(1, std::memory_order_relaxed);
} catch (const Error&) {
  // What cuDNN refuses as early as this has no plan either: nothing was queued.
}

/// Everything that a plan depends on.
using Key = std::array<int64_t, 44>;

Key key_of(const Attention& args) {
  Key key{};
  size_t at = 0;
  const auto add = [&](int64_t value) { key[at++] = value; };
  for (int64_t size : args.query.sizes) add(size);
  for (int d : {1, 2}) add(args.key.sizes[d]);
  add(args.value.sizes[3]);
  for (const View* view : {&args.query, &args.key, &args.value, &args.result, &args.grad,
                           &args.grad_query, &args.grad_key, &args.grad_value})
    if (view->data)
      for (int64_t stride : view->strides) add(stride);
  add(args.backward);
  add(args.causal);
  add(static_cast<int64_t>(args.query.dtype));
  add(args.device);
  return key;
}

Known& find(const Attention& args) {
  thread_local std::map<Key, Known> known;
  const Key key = key_of(args);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  if (known.size() >= kMaxPlans) known.clear();
  return known.emplace(key, Known{}).first->second;
}

/// Of arrays that are expanded or have more elements than 32 bits count nobody says what cuDNN
/// does.
bool can_be_described(const Attention& args) {
  for (const View* view : {&args.query, &args.key, &args.value, &args.result, &args.grad,
                           &args.grad_query, &args.grad_key, &args.grad_value}) {
    if (view->numel > std::numeric_limits<int32_t>::max()) return false;
    for (int d = 0; d < view->dim(); ++d)
      if (view->sizes[d] > 1 && view->strides[d] <= 0) return false;
  }
  return true;
}

bool is_there() {
  static const bool there = [] {
    try {
      return library().version() >= kFirstVersion;
    } catch (const Error&) {
      return false;
    }
  }();
  return there;
}

}  // namespace

bool attend(const Attention& args) {
  if (!is_there() || !can_be_described(args)) return false;
  use_device(args.device);
  Known& known = find(args);
  if (!known.asked) make_plan(args, known);
  if (!known.plan) return false;
  float scale = args.scale, hidden = -std::numeric_limits<float>::infinity(), one = 1;
  std::optional<Scratch> delta, sums;
  if (args.backward) {
    delta.emplace(args.device, args.logarithms.bytes());
    sums.emplace(args.device, static_cast<size_t>(args.query.numel) * sizeof(float));
  }
  const Ends& ends = known.ends;
  const Binding all[] = {{ends.query, args.query.data},
                         {ends.key, args.key.data},
                         {ends.value, args.value.data},
                         {ends.result, args.result.data},
                         {ends.logarithms, args.logarithms.data},
                         {ends.scale, &scale},
                         {ends.hidden, &hidden},
                         {ends.grad, args.grad.data},
                         {ends.grad_query, args.grad_query.data},
                         {ends.grad_key, args.grad_key.data},
                         {ends.grad_value, args.grad_value.data},
                         {ends.one, &one},
                         {ends.delta, delta ? delta->data() : nullptr},
                         {ends.sums, sums ? sums->data() : nullptr}};
  std::vector<Binding> used;
  for (const Binding& binding : all)
    if (binding.tensor) used.push_back(binding);
  known.plan->run(args.op, args.device, used);
  counters().runs.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void set_attention_choice(AttentionChoice chosen) {
  choice().store(chosen, std::memory_order_relaxed);
}
AttentionChoice attention_choice() { return choice().load(std::memory_order_relaxed); }

AttentionPlanCounts attention_plan_counts() {
  return {counters().made.load(), counters().runs.load()};
}

}  // namespace tensora::cuda::cudnn
