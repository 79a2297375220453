#include "tensora/distributed/scale.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tensora/base/error_kinds.h"
#include "tensora/distributed/pipeline_schedule.h"
#include "tensora/distributed/scale_clock.h"

namespace tensora::distributed {
namespace {

// The mean of the largest of n values of a standard normal distribution (Blom's approximation).
double expected_maximum(double n) {
  if (n <= 1) return 0;
  const double probability = (n - 0.375) / (n + 0.25);
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return low;
}

void check_job(const ScaleJob& job, const ScaleLayout& layout) {
  const models::LLaMAConfig& c = job.model;
  check_as<ValueError>(
      job.context >= 1 && job.micro_batch >= 1 && job.accumulation >= 1 && job.global_batch >= 0,
      "scale: context, batch and accumulation must be positive");
  check_as<ValueError>(
      c.num_attention_heads % layout.tensor == 0 && job.context % layout.tensor == 0,
      "scale: tp=", layout.tensor, " must divide the ", c.num_attention_heads,
      " attention heads and the ", job.context, " tokens of a sequence");
  const int64_t stages = int64_t{layout.pipeline} * layout.stages_per_rank;
  check_as<ValueError>(stages <= c.num_hidden_layers, "scale: ", stages, " stages need as many ",
                       "layers, and the model has ", c.num_hidden_layers);
  check_as<ValueError>(layout.pipeline == 1 || layout.zero_stage < 3,
                       "scale: zero3 gathers the parameters for every micro-batch; with pp use ",
                       "zero1 or zero2");
}

}  // namespace

class ScaleModel::Impl {
 public:
  Impl(ScaleJob job, ScaleMachine machine) : job_(std::move(job)), machine_(std::move(machine)) {}

  const ScaleJob& job() const { return job_; }

  void calibrate(const ScaleLayout& layout, double tokens_per_second) {
    check_as<ValueError>(tokens_per_second > 0, "scale: the measured throughput must be positive");
    calibrated_ = true;
    for (size_t i = 0; i < 3; ++i) {
      double low = 0.01, high = 10;
      for (int step = 0; step < 30; ++step) {
        rates_[i] = std::sqrt(low * high);
        (throughput(layout, guess(i)) < tokens_per_second ? low : high) = rates_[i];
      }
      check(rates_[i] > 0.0101 && rates_[i] < 9.99, "scale: ", tokens_per_second,
            " tokens per second on ", layout.ranks(), " ranks (", layout.text(),
            ") are out of the machine's reach");
    }
  }

  ScalePrediction predict(const ScaleLayout& layout) {
    check_job(job_, layout);
    ScalePrediction result = predict_with(layout, guess(0));
    result.low = throughput(layout, guess(1));
    result.high = throughput(layout, guess(2));
    if (result.low > result.high) std::swap(result.low, result.high);
    result.low = std::min(result.low, result.tokens_per_second);
    result.high = std::max(result.high, result.tokens_per_second);
    add_failures(result);
    return result;
  }

 private:
  // 0: as the machine says; 1: everything that is uncertain is worse; 2: better.
  Guess guess(size_t which) const {
    Guess made{machine_, rates_[which]};
    if (which == 0) return made;
    const double sign = which == 1 ? -1 : 1;
    ScaleMachine& m = made.machine;
    m.node.bandwidth *= 1 + sign * m.link_error;
    m.network.bandwidth *= 1 + sign * m.link_error;
    m.contention = std::min(0.9, m.contention * (1 - 0.5 * sign));
    m.jitter *= which == 1 ? 2 : 0.5;
    if (!calibrated_) made.rate *= 1 + sign * m.rate_error;
    return made;
  }

  int64_t layers_of(const ScaleLayout& layout, int stage) const {
    const int stages = layout.pipeline * layout.stages_per_rank;
    const int64_t layers = job_.model.num_hidden_layers, more = layers % stages;
    // The first stage has the embedding, the last the head: the others get the odd layers.
    const int turn = (stage + stages - 1) % stages;
    return layers / stages + (turn < more ? 1 : 0);
  }

  const StageTrace& trace_of(const ScaleLayout& layout, int stage) {
    const int stages = layout.pipeline * layout.stages_per_rank;
    const StageRole role{stage == 0, stage == stages - 1, layers_of(layout, stage)};
    const Key key{role, layout.tensor, std::min(layout.data, 2), layout.zero_stage};
    auto found = traces_.find(key);
    if (found == traces_.end()) found = traces_.emplace(key, trace_stage(job_, layout, role)).first;
    return found->second;
  }

  double throughput(const ScaleLayout& layout, const Guess& guess) {
    return predict_with(layout, guess).tokens_per_second;
  }

  ScalePrediction predict_with(const ScaleLayout& layout, const Guess& guess) {
    ScalePrediction result;
    result.layout = layout;
    if (layout.pipeline == 1)
      run_alone(layout, guess, result);
    else
      run_pipeline(layout, guess, result);
    result.straggling = result.seconds * guess.machine.jitter * expected_maximum(layout.ranks());
    result.seconds += result.straggling;
    const double tokens = job_.tokens_per_step(layout);
    result.tokens_per_second = tokens / result.seconds;
    double flops = 0;
    for (int s = 0; s < layout.pipeline * layout.stages_per_rank; ++s)
      flops += 3 * trace_of(layout, s).forward_flops * layout.tensor;
    flops *= static_cast<double>(job_.micro_batches(layout)) * layout.data;
    result.mfu = flops / result.seconds / (machine_.peak_flops * layout.ranks());
    return result;
  }

  void run_alone(const ScaleLayout& layout, const Guess& guess, ScalePrediction& result) {
    const StageTrace& trace = trace_of(layout, 0);
    StepClock clock(guess, layout, trace);
    const int64_t count = job_.micro_batches(layout);
    for (int64_t i = 0; i + 1 < count; ++i) {
      clock.run(trace.forward);
      clock.run(trace.backward);
    }
    clock.run(trace.last_forward);
    clock.run(trace.last_backward);
    clock.run({{.amount = update_bytes(job_, layout, trace)}});
    const double before = clock.exposed["dp"];
    clock.run(trace.update);
    result.seconds = clock.now;
    result.exposed_data = clock.exposed["dp"];
    if (job_.overlap_gather) {
      StepClock forward(guess, layout, trace);
      forward.run(trace.last_forward);
      const double hidden = std::min(result.exposed_data - before, forward.now);
      result.seconds -= hidden;
      result.exposed_data -= hidden;
    }
    result.exposed_tensor = clock.exposed["tp"];
    result.communication = clock.communication;
    result.traced_ops = trace.ops;
    add_memory(layout, {&trace}, 1, result);
  }

  void run_pipeline(const ScaleLayout& layout, const Guess& guess, ScalePrediction& result) {
    const auto count = static_cast<int>(job_.micro_batches(layout));
    const int stages = layout.pipeline * layout.stages_per_rank;
    std::vector<StageTimes> times;
    for (int s = 0; s < stages; ++s)
      times.push_back(times_of(guess, layout, trace_of(layout, s), count,
                               update_bytes(job_, layout, trace_of(layout, s))));
    const int apart = layout.tensor * layout.data;
    const GroupShape pair{2, apart < guess.machine.ranks_per_node ? 2 : 1};
    const double message = collective_seconds(guess.machine, CollectiveKind::send,
                                              trace_of(layout, 0).boundary_bytes, pair);
    if (job_.overlap_gather) hide_gathers(layout, times);
    result.seconds = pipeline_seconds(layout, count, times, message);
    // The parts of the rank that works longest; the rest of the step is its idle time.
    double busiest = 0;
    for (int rank = 0; rank < layout.pipeline; ++rank) {
      double busy = 0, data = 0, tensor = 0, sent = 0, update = 0;
      for (int s = rank; s < stages; s += layout.pipeline) {
        const StageTimes& stage = times[static_cast<size_t>(s)];
        busy += count * (stage.forward + stage.backward);
        update += stage.update;
        data += count * stage.exposed_data;
        tensor += count * stage.exposed_tensor;
        sent += stage.communication;
      }
      if (busy + update <= busiest) continue;
      busiest = busy + update;
      result.exposed_data = data;
      result.exposed_tensor = tensor;
      result.communication = sent;
    }
    result.bubble = std::max(0.0, result.seconds - busiest);
    const PipelineCheck checked = kept_by(layout, count);
    for (int rank = 0; rank < layout.pipeline; ++rank) {
      std::vector<const StageTrace*> traces;
      for (int s = rank; s < stages; s += layout.pipeline) traces.push_back(&trace_of(layout, s));
      add_memory(layout, traces, checked.kept[static_cast<size_t>(rank)], result);
    }
    for (const auto& [key, trace] : traces_) result.traced_ops += trace.ops;
  }

  // What ranks keep does not grow with a long table, except where all forwards come first.
  static PipelineCheck kept_by(const ScaleLayout& layout, int micro_batches) {
    const int enough = layout.schedule == "gpipe" ? micro_batches : 3 * layout.pipeline;
    return check_pipeline_schedule(make_pipeline_schedule(
        layout.schedule, layout.pipeline, std::min(micro_batches, enough), layout.stages_per_rank));
  }

  // The parameters of a rank's stages are gathered while its first micro-batches run forward.
  static void hide_gathers(const ScaleLayout& layout, std::vector<StageTimes>& times) {
    for (StageTimes& stage : times) {
      const double hidden = std::min(stage.exposed_update, stage.forward * layout.pipeline);
      stage.update -= hidden;
    }
  }

  // Of a rank with these stages that keeps so many micro-batches of one stage; the largest counts.
  void add_memory(const ScaleLayout& layout, const std::vector<const StageTrace*>& traces, int kept,
                  ScalePrediction& result) const {
    double parameters = 0, activations = 0, peak = 0;
    for (const StageTrace* trace : traces) {
      parameters += trace->parameters;
      activations += trace->kept_bytes * (kept - 1) / static_cast<double>(traces.size());
      peak += step_peak_bytes(job_, layout, *trace) - (traces.size() > 1 ? trace->kept_bytes : 0);
    }
    if (traces.size() > 1) peak += traces[0]->kept_bytes;
    const double element = static_cast<double>(bytes_of(job_.dtype, 1));
    const double state = job_.dtype == kFloat32 ? 8 : 12;  // two moments, a float32 copy
    const double own = parameters * element / (layout.zero_stage == 3 ? layout.data : 1);
    const double optimizer = parameters * state / (layout.zero_stage > 0 ? layout.data : 1);
    if (own + optimizer + activations + peak <= result.memory()) return;
    result.parameters = own;
    result.optimizer = optimizer;
    result.activations = activations + peak;
    result.fits = result.memory() <= machine_.memory_bytes;
  }

  // The best interval between checkpoints (Young) and what failures cost with it.
  void add_failures(ScalePrediction& result) const {
    const double rate = machine_.failures_per_rank_hour * result.layout.ranks() / 3600;
    if (rate <= 0) return;
    const double between = 1 / rate;
    const double interval = std::sqrt(2 * machine_.checkpoint_seconds * between);
    result.checkpoint_interval = interval;
    const double lost = machine_.checkpoint_seconds / std::max(interval, 1.0) +
                        interval / (2 * between) + machine_.restart_seconds / between;
    result.goodput = std::max(0.0, 1 - lost);
  }

  struct Key {
    StageRole role;
    int tensor, data, zero_stage;
    auto operator<=>(const Key&) const = default;
  };

  ScaleJob job_;
  ScaleMachine machine_;
  std::map<Key, StageTrace> traces_;
  double rates_[3] = {1, 1, 1};
  bool calibrated_ = false;
};

ScaleModel::ScaleModel(ScaleJob job, ScaleMachine machine)
    : impl_(std::make_unique<Impl>(std::move(job), std::move(machine))) {}
ScaleModel::~ScaleModel() = default;

void ScaleModel::calibrate(const ScaleLayout& layout, double tokens_per_second) {
  check_job(impl_->job(), layout);
  impl_->calibrate(layout, tokens_per_second);
}
ScalePrediction ScaleModel::predict(const ScaleLayout& layout) { return impl_->predict(layout); }

std::vector<ScalePrediction> ScaleModel::search(int ranks) {
  const ScaleJob& job = impl_->job();
  std::vector<ScalePrediction> found;
  for (int tensor = 1; tensor <= std::min(8, ranks); tensor *= 2)
    for (int pipeline = 1; tensor * pipeline <= std::min(ranks, 128); pipeline *= 2) {
      if (ranks % (tensor * pipeline) != 0) continue;
      ScaleLayout layout{
          .data = ranks / (tensor * pipeline), .tensor = tensor, .pipeline = pipeline};
      const int64_t at_once = job.micro_batch * layout.data;
      if (job.model.num_attention_heads % tensor != 0 || job.context % tensor != 0 ||
          pipeline > job.model.num_hidden_layers ||
          (job.global_batch > 0 && job.global_batch % at_once != 0))
        continue;
      const bool divided = layout.data > 1;
      for (const int stage : {0, 1, 3})
        if ((divided || stage == 0) && (pipeline == 1 || stage < 3)) {
          layout.zero_stage = stage;
          found.push_back(predict(layout));
        }
    }
  std::ranges::stable_sort(found, [](const ScalePrediction& a, const ScalePrediction& b) {
    if (a.fits != b.fits) return a.fits;
    return a.tokens_per_second > b.tokens_per_second;
  });
  return found;
}

}  // namespace tensora::distributed
