#include "tensora/distributed/scale_step.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/core/rank_state.h"
#include "tensora/core/storage.h"
#include "tensora/dispatch/interceptor.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/fake.h"
#include "tensora/nn/embedding.h"
#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/transformer_block.h"
#include "tensora/ops.h"
#include "tensora/ops/attention/attention.h"
#include "tensora/ops/collective/collective.h"
#include "tensora/optim/adamw.h"

namespace tensora::distributed {
namespace {

/// Bytes of the meta tensors that exist, parameters aside.
struct LiveMemory {
  std::unordered_set<const Storage*> known;
  double bytes = 0, peak = 0;
};

/// Lives as long as the storage that owns it.
class StorageMark {
 public:
  StorageMark(std::shared_ptr<LiveMemory> live, const Storage* storage)
      : live_(std::move(live)), storage_(storage) {
    live_->known.insert(storage_);
    live_->bytes += static_cast<double>(storage_->bytes());
    live_->peak = std::max(live_->peak, live_->bytes);
  }
  ~StorageMark() {
    live_->known.erase(storage_);
    live_->bytes -= static_cast<double>(storage_->bytes());
  }
  StorageMark(const StorageMark&) = delete;
  StorageMark& operator=(const StorageMark&) = delete;

 private:
  std::shared_ptr<LiveMemory> live_;
  const Storage* storage_;
};

double size_at(const Tensor& tensor, int64_t dim) { return static_cast<double>(tensor.size(dim)); }
double count_of(const Tensor& tensor) { return static_cast<double>(tensor.numel()); }
double bytes_of(const Tensor& tensor) { return static_cast<double>(tensor.nbytes()); }

struct OpCost {
  ScaleWork work = ScaleWork::memory;
  double amount = 0;
};

// Two FLOP for each product of two numbers.
double product_flops(const Call& call, const Tensors& results) {
  const std::string_view op = call.op.name;
  const auto input = [&](size_t i) -> const Tensor& { return *call.inputs[i]; };
  if (op == "matmul") return 2 * count_of(results[0]) * size_at(input(0), -1);
  if (op == "addmm" || op == "add_wide_product")
    return 2 * count_of(input(0)) * size_at(input(1), -1);
  if (op == "linear_gradients") return 2 * count_of(results[0]) * size_at(input(0), 0);
  if (op == "linear_activation") return 2 * count_of(input(0)) * size_at(input(1), 0);
  if (op == "linear_group") {
    double flops = 0;
    for (size_t i = 1; i < call.inputs.size(); ++i)
      flops += 2 * count_of(input(0)) * size_at(input(i), 0);
    return flops;
  }
  return 0;
}

// Scores and their product with the values; five products of that size in backward. The causal half
// is not computed.
double attention_flops(const Call& call) {
  const bool backward = call.op.name != "attention";
  if (backward && call.op.name != "attention_backward" &&
      call.op.name != "packed_attention_backward")
    return 0;
  const size_t at = backward ? 1 : 0;
  const Tensor &query = *call.inputs[at], &key = *call.inputs[at + 1];
  const bool causal = static_cast<const AttentionAttrs*>(call.attrs)->is_causal;
  return (backward ? 10 : 4) * count_of(query) * size_at(key, -2) * (causal ? 0.5 : 1);
}

OpCost cost_of(const Call& call, const Tensors& results) {
  if (call.op.view) return {};
  if (const double flops = product_flops(call, results); flops > 0)
    return {ScaleWork::product, flops};
  if (const double flops = attention_flops(call); flops > 0) return {ScaleWork::attention, flops};
  double bytes = 0;
  for (const Arg& input : call.inputs)
    if (input->defined()) bytes += bytes_of(*input);
  for (const Tensor& result : results) bytes += bytes_of(result);
  return {ScaleWork::memory, bytes};
}

/// Writes down what the current thread does.
class StepRecorder final : public Interceptor, public FakeListener {
 public:
  explicit StepRecorder(StageTrace& trace) : trace_(trace) {}

  /// What follows goes into this list; null: nowhere.
  void record_into(std::vector<StepEvent>* events) { events_ = events; }
  /// In a part that is timed as a whole.
  void set_skips_ops(bool skips) { skips_ops_ = skips; }
  void exclude(const Tensor& tensor) { live_->known.insert(tensor.impl().storage.get()); }
  LiveMemory& live() { return *live_; }

  Tensors intercept(const Call& call) override {
    Tensors results = proceed(call);
    for (const Arg& input : call.inputs)
      if (input->defined()) track(*input);
    for (const Tensor& result : results) track(result);
    if (!events_ || !on_meta(call, results)) return results;
    if (record_collective(call, results)) return results;
    const OpCost cost = cost_of(call, results);
    if (skips_ops_ || cost.amount == 0) return results;
    events_->push_back({.work = cost.work, .amount = cost.amount});
    ++trace_.ops;
    // The chunked loss computes its gradients at once, without recording: three products for one.
    if (events_ == &trace_.forward && cost.work != ScaleWork::memory)
      trace_.forward_flops += is_grad_enabled() ? cost.amount : cost.amount / 3;
    return results;
  }

  void on_call(size_t number, const FakeCall& call) override {
    if (!events_ || !call.device.is_meta()) return;
    const double times = call.kind == CollectiveKind::all_gather ? call.ranks : 1;
    const double size = static_cast<double>(tensora::bytes_of(call.dtype, call.count)) * times;
    if (numbers_.size() <= number) numbers_.resize(number + 1, -1);
    numbers_[number] = add_call(call.group, call.kind, size);
  }
  void on_wait(size_t number) override {
    if (events_ && number < numbers_.size() && numbers_[number] >= 0)
      events_->push_back({.kind = StepEvent::Kind::wait, .call = numbers_[number]});
  }

 private:
  static bool on_meta(const Call& call, const Tensors& results) {
    const auto is_meta = [](const auto& tensor) { return tensor.defined() && tensor.is_meta(); };
    return std::ranges::any_of(results, is_meta) ||
           std::ranges::any_of(call.inputs, [&](const Arg& input) { return is_meta(*input); });
  }

  void track(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_meta()) return;
    Storage* const storage = tensor.impl().storage.get();
    if (!storage || live_->known.contains(storage)) return;
    storage->provide(nullptr, std::make_shared<StorageMark>(live_, storage));
  }

  int add_call(const std::string& group, CollectiveKind kind, double size) {
    const int number = static_cast<int>(trace_.calls.size());
    trace_.calls.push_back({group, kind, size});
    events_->push_back({.kind = StepEvent::Kind::call, .call = number});
    return number;
  }

  // A collective that is an op infers on meta tensors and calls no group. Its result is used at
  // once.
  bool record_collective(const Call& call, const Tensors& results) {
    const std::string_view op = call.op.name;
    int number = -1;
    if (op == "all_reduce")
      number = add_call(static_cast<const AllReduceAttrs*>(call.attrs)->group,
                        CollectiveKind::all_reduce, bytes_of(results[0]));
    else if (op == "all_gather")
      number = add_call(static_cast<const GroupDimAttrs*>(call.attrs)->group,
                        CollectiveKind::all_gather, bytes_of(results[0]));
    else if (op == "reduce_scatter")
      number = add_call(static_cast<const ReduceScatterAttrs*>(call.attrs)->group,
                        CollectiveKind::reduce_scatter, bytes_of(*call.inputs[0]));
    if (number < 0) return false;
    events_->push_back({.kind = StepEvent::Kind::wait, .call = number});
    return true;
  }

  StageTrace& trace_;
  std::vector<StepEvent>* events_ = nullptr;
  bool skips_ops_ = false;
  std::vector<int> numbers_;  // of calls, by their number in the world's log
  std::shared_ptr<LiveMemory> live_ = std::make_shared<LiveMemory>();
};

int64_t divided(int64_t count, int parts) { return (count + parts - 1) / parts; }

nn::TransformerBlock make_block(const models::LLaMAConfig& c, int tensor_ranks) {
  const int64_t size = c.head_dim > 0 ? c.head_dim : c.hidden_size / c.num_attention_heads;
  const int64_t groups = c.num_key_value_heads > 0 ? c.num_key_value_heads : c.num_attention_heads;
  const nn::RotaryEmbedding rotary(
      size, {.max_positions = c.max_position_embeddings, .base = c.rope_theta});
  return {c.hidden_size,
          c.num_attention_heads / tensor_ranks,
          divided(c.intermediate_size, tensor_ranks),
          {.attention = {.num_kv_heads = std::max<int64_t>(1, groups / tensor_ranks),
                         .head_size = size,
                         .rotary = rotary}}};
}

/// The layers of one pipeline stage, with the shapes of one tensor-parallel rank. With several such
/// ranks the hidden states between the halves of a block are divided along the sequence
/// (sequence parallel), gathered before each half and reduce-scattered behind it.
class Stage : public nn::Layer<Stage> {
 public:
  Stage(const ScaleJob& job, const ScaleLayout& layout, StageRole role)
      : layers(register_module("layers", nn::ModuleList<nn::TransformerBlock>())),
        recompute_(job.recompute),
        divided_(layout.tensor > 1) {
    const models::LLaMAConfig& c = job.model;
    const int64_t vocabulary = divided(c.vocab_size, layout.tensor);
    if (role.first)
      embed_tokens = register_module("embed_tokens", nn::Embedding(vocabulary, c.hidden_size));
    for (int64_t i = 0; i < role.layers; ++i) {
      nn::TransformerBlock block = make_block(c, layout.tensor);
      if (divided_) {
        divide(block.self_attn);
        divide(block.mlp);
      }
      layers.push_back(block);
    }
    if (!role.last) return;
    norm = register_module("norm", nn::RMSNorm({c.hidden_size}, {.eps = c.rms_norm_eps}));
    if (!c.tie_word_embeddings || !role.first)
      lm_head = register_module("lm_head", nn::Linear(c.hidden_size, vocabulary, {.bias = false}));
  }

  Tensor forward(const Tensor& input /* B T, or B T hidden */, const Tensor& targets) const {
    Tensor x = input;
    if (embed_tokens) {
      x = (*embed_tokens)(x);
      if (divided_) x = collective::reduce_scatter(x, ReduceOp::sum, 1, "tp");
    }
    for (const nn::TransformerBlock& block : layers) {
      const auto body = [block](const Tensor& in) { return block(in); };
      x = recompute_ ? checkpoint(body, x) : body(x);
    }
    if (!norm) return x;
    x = (*norm)(x);
    if (divided_) x = collective::all_gather(x, 1, "tp");
    const Tensor loss =
        nn::linear_cross_entropy(x, lm_head ? lm_head->weight : embed_tokens->weight, targets);
    if (!divided_) return loss;
    // Of a divided vocabulary: the maximum, the sum and the target's score of every token.
    const Tensor rows = empty(targets.sizes(), {.dtype = kFloat32, .device = targets.device()});
    for (int i = 0; i < 3; ++i) collective::all_reduce(rows, ReduceOp::sum, "tp");
    return loss;
  }

  std::optional<nn::Embedding> embed_tokens;
  nn::ModuleList<nn::TransformerBlock> layers;
  std::optional<nn::RMSNorm> norm;
  std::optional<nn::Linear> lm_head;

 private:
  static void divide(nn::Module& half) {
    half.register_forward_pre_hook([](nn::Module&, TensorList& inputs) {
      inputs[0] = collective::all_gather(inputs[0], 1, "tp");
    });
    half.register_forward_hook([](nn::Module&, const TensorList&, TensorList& outputs) {
      outputs[0] = collective::reduce_scatter(outputs[0], ReduceOp::sum, 1, "tp");
    });
  }

  bool recompute_, divided_;
};

/// A stage with its optimizer, and the inputs of a micro-batch.
class TracedStage {
 public:
  TracedStage(const ScaleJob& job, const ScaleLayout& layout, StageRole role,
              std::shared_ptr<FakeGroup> group)
      : role_(role),
        made_({.dtype = job.dtype, .device = Device(DeviceType::meta)}),
        model_(job, layout, role),
        optimizer_(model_.parameters()) {
    const Device meta(DeviceType::meta);
    targets_ = empty({job.micro_batch, job.context}, {.dtype = kInt64, .device = meta});
    tokens_ = role.first
                  ? targets_
                  : empty({job.micro_batch, job.context / layout.tensor, job.model.hidden_size},
                          {.dtype = job.dtype, .device = meta});
    if (!role.first) tokens_.requires_grad_();
    if (group->size() == 1) return;
    parallel_ = std::make_unique<DataParallel>(
        model_, DataParallelOptions{.group = std::move(group), .zero_stage = layout.zero_stage});
    parallel_->shard(optimizer_);
  }

  const Stage& model() const { return model_; }
  optim::AdamW& optimizer() { return optimizer_; }
  Tensor forward() { return model_(tokens_, targets_); }
  void backward(const Tensor& output, bool last) {
    std::optional<DataParallel::NoSync> quiet;
    if (parallel_ && !last) quiet.emplace(*parallel_);
    role_.last ? output.backward() : output.backward(empty_like(output.detach()));
  }

 private:
  StageRole role_;
  nn::FactoryScope made_;
  Stage model_;
  optim::AdamW optimizer_;
  Tensor tokens_, targets_;
  std::unique_ptr<DataParallel> parallel_;
};

void record_steps(TracedStage& stage, StepRecorder& recorder, StageTrace& trace, bool is_last) {
  const auto step = [&](std::vector<StepEvent>* forward, std::vector<StepEvent>* backward,
                        bool last) {
    recorder.record_into(forward);
    const double before = recorder.live().bytes;
    const Tensor output = stage.forward();
    if (forward) trace.kept_bytes = std::max(trace.kept_bytes, recorder.live().bytes - before);
    if (!is_last) trace.boundary_bytes = bytes_of(output);
    recorder.record_into(backward);
    stage.backward(output, last);
  };
  // The first step agrees on the order of the buckets and makes the optimizer's state.
  step(nullptr, nullptr, true);
  const double before = recorder.live().bytes;
  recorder.record_into(nullptr);
  stage.optimizer().step();
  const double state = recorder.live().bytes - before;
  stage.optimizer().zero_grad();
  recorder.live().peak = recorder.live().bytes;
  step(&trace.forward, &trace.backward, false);
  step(&trace.last_forward, &trace.last_backward, true);
  recorder.record_into(&trace.update);
  recorder.set_skips_ops(true);
  stage.optimizer().step();
  trace.peak_bytes = recorder.live().peak - state;
  recorder.record_into(nullptr);
}

}  // namespace

StageTrace trace_stage(const ScaleJob& job, const ScaleLayout& layout, StageRole role) {
  StageTrace trace;
  RankState state;
  const RankScope rank(state);
  // Which calls there are does not depend on the number of data-parallel ranks, nor do their bytes.
  const int data = std::min(layout.data, 2);
  const auto world = make_fake_world(0, data * layout.tensor);
  std::vector<int> tensor_ranks(static_cast<size_t>(layout.tensor)), data_ranks;
  std::iota(tensor_ranks.begin(), tensor_ranks.end(), 0);
  for (int i = 0; i < data; ++i) data_ranks.push_back(i * layout.tensor);
  const auto tensor_group = world->part("tp", tensor_ranks);
  StepRecorder recorder(trace);
  TracedStage stage(job, layout, role, world->part("dp", data_ranks));
  for (const Tensor& parameter : stage.model().parameters()) {
    recorder.exclude(parameter);
    trace.parameters += count_of(parameter);
  }
  {
    const InterceptorScope scope(recorder);
    world->set_listener(&recorder);
    record_steps(stage, recorder, trace, role.last);
    world->set_listener(nullptr);
  }
  // Gradients travel in their own dtype.
  const double wider = static_cast<double>(tensora::bytes_of(job.gradients, 1)) /
                       static_cast<double>(tensora::bytes_of(job.dtype, 1));
  for (StepCall& call : trace.calls)
    if (call.group == "dp" && call.kind != CollectiveKind::all_gather) call.bytes *= wider;
  return trace;
}

// The fused optimizer reads gradient, parameter and two moments and writes the last three; with
// 16-bit parameters it has a float32 copy of them beside.
double update_bytes(const ScaleJob& job, const ScaleLayout& layout, const StageTrace& trace) {
  double each = 4 * 3 * 2 + static_cast<double>(tensora::bytes_of(job.gradients, 1));
  if (job.dtype != kFloat32) each += static_cast<double>(tensora::bytes_of(job.dtype, 1));
  return each * trace.parameters / (layout.zero_stage > 0 ? layout.data : 1);
}

double step_peak_bytes(const ScaleJob& job, const ScaleLayout& layout, const StageTrace& trace) {
  const double traced = static_cast<double>(tensora::bytes_of(job.dtype, 1));
  const double wanted = static_cast<double>(tensora::bytes_of(job.gradients, 1));
  const double traced_share = layout.zero_stage >= 2 ? 1.0 / std::min(layout.data, 2) : 1;
  const double share = layout.zero_stage >= 2 ? 1.0 / layout.data : 1;
  const double gradients = trace.parameters * (wanted * share - traced * traced_share);
  return std::max(0.0, trace.peak_bytes + gradients);
}

}  // namespace tensora::distributed
