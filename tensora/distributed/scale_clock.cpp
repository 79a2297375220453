#include "tensora/distributed/scale_clock.h"

#include "tensora/distributed/pipeline_schedule.h"

namespace tensora::distributed {
namespace {

GroupShape shape_of(const std::string& group, const ScaleLayout& layout,
                    const ScaleMachine& machine) {
  if (group == "tp") return {layout.tensor, std::min(layout.tensor, machine.ranks_per_node)};
  return {layout.data,
          std::clamp(machine.ranks_per_node / layout.tensor, 1, std::max(1, layout.data))};
}

double op_seconds(const Guess& guess, const StepEvent& event) {
  const ScaleMachine& m = guess.machine;
  const RateCurve& curve = event.work == ScaleWork::product     ? m.products
                           : event.work == ScaleWork::attention ? m.attention
                                                                : m.memory;
  return std::max(m.op_seconds, event.amount / (rate_at(curve, event.amount) * guess.rate));
}

/// Performs a pipeline's table with the times of its stages.
class PipelineClock {
 public:
  PipelineClock(const PipelineSchedule& schedule, const std::vector<StageTimes>& stages,
                double message)
      : schedule_(schedule), stages_(stages), message_(message) {}

  /// When the last rank has finished its update.
  double run() {
    const size_t ranks = schedule_.actions.size();
    const size_t places = static_cast<size_t>(schedule_.stages() * schedule_.micro_batches);
    std::vector<size_t> next(ranks, 0);
    free_.assign(ranks, 0);
    reduced_.assign(ranks, 0);
    forward_.assign(places, kNotYet);
    input_.assign(places, kNotYet);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < ranks; ++rank)
        while (next[rank] < schedule_.actions[rank].size() &&
               perform(rank, schedule_.actions[rank][next[rank]])) {
          ++next[rank];
          moved = true;
        }
    }
    double end = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      double update = 0;
      for (int s = static_cast<int>(rank); s < schedule_.stages(); s += schedule_.ranks)
        update += stages_[static_cast<size_t>(s)].update;
      end = std::max(end, std::max(free_[rank], reduced_[rank]) + update);
    }
    return end;
  }

 private:
  using Kind = PipelineActionKind;
  static constexpr double kNotYet = -1;

  double& at(std::vector<double>& ends, int stage, int micro_batch) const {
    return ends[static_cast<size_t>(stage * schedule_.micro_batches + micro_batch)];
  }

  bool perform(size_t rank, const PipelineAction& action) {
    const int s = action.stage, i = action.micro_batch;
    const StageTimes& times = stages_[static_cast<size_t>(s)];
    double from = 0, seconds = times.forward, message = 0;
    if (action.kind == Kind::forward) {
      if (s > 0) {
        from = at(forward_, s - 1, i);
        message = message_;
      }
    } else if (action.kind == Kind::backward_weight) {
      from = at(input_, s, i);
      seconds = times.backward / 2;
    } else {
      const bool last = s == schedule_.stages() - 1;
      from = last ? at(forward_, s, i) : at(input_, s + 1, i);
      message = last ? 0 : message_;
      seconds = action.kind == Kind::backward ? times.backward : times.backward / 2;
    }
    if (from == kNotYet) return false;
    const double start = std::max(from + message, free_[rank]);
    free_[rank] = start + seconds;
    if (action.kind == Kind::forward) at(forward_, s, i) = free_[rank];
    if (action.kind == Kind::backward || action.kind == Kind::backward_input)
      at(input_, s, i) = free_[rank];
    const bool ends = action.kind == Kind::backward || action.kind == Kind::backward_weight;
    if (ends && i == schedule_.micro_batches - 1)
      reduced_[rank] = std::max(reduced_[rank], start) + std::max(0.0, times.reduction);
    return true;
  }

  const PipelineSchedule& schedule_;
  const std::vector<StageTimes>& stages_;
  double message_;
  std::vector<double> free_, reduced_;
  std::vector<double> forward_, input_;  // when they end, by stage and micro-batch
};

}  // namespace

StepClock::StepClock(const Guess& guess, const ScaleLayout& layout, const StageTrace& trace)
    : guess_(guess), trace_(trace), ends_(trace.calls.size(), 0) {
  for (const char* group : {"dp", "tp"}) shapes_[group] = shape_of(group, layout, guess.machine);
}

void StepClock::run(const std::vector<StepEvent>& events) {
  for (const StepEvent& event : events) {
    if (event.kind == StepEvent::Kind::op) {
      compute(op_seconds(guess_, event));
      continue;
    }
    const StepCall& call = trace_.calls[static_cast<size_t>(event.call)];
    double& end = ends_[static_cast<size_t>(event.call)];
    if (event.kind == StepEvent::Kind::call) {
      const double seconds =
          collective_seconds(guess_.machine, call.kind, call.bytes, shapes_[call.group]);
      double& free = free_[call.group];
      end = free = std::max(free, now) + seconds;
      busy_until_ = std::max(busy_until_, end);
      communication += seconds;
    } else if (end > now) {
      exposed[call.group] += end - now;
      now = end;
    }
  }
}

// While a collective runs, computation is slower.
void StepClock::compute(double seconds) {
  const double speed = 1 - guess_.machine.contention;
  const double beside = std::max(0.0, busy_until_ - now);
  now += seconds <= beside * speed ? seconds / speed : beside + (seconds - beside * speed);
}

StageTimes times_of(const Guess& guess, const ScaleLayout& layout, const StageTrace& trace,
                    double micro_batches, double update_bytes) {
  StageTimes times;
  StepClock forward(guess, layout, trace), backward(guess, layout, trace),
      last(guess, layout, trace), update(guess, layout, trace);
  forward.run(trace.forward);
  backward.run(trace.backward);
  last.run(trace.last_backward);
  update.run({{.amount = update_bytes}});
  update.run(trace.update);
  times.forward = forward.now;
  times.backward = backward.now;
  times.reduction = last.communication - backward.communication;
  times.update = update.now;
  times.exposed_update = update.exposed["dp"];
  times.exposed_tensor = forward.exposed["tp"] + backward.exposed["tp"];
  times.exposed_data = forward.exposed["dp"] + backward.exposed["dp"];
  times.communication = (forward.communication + backward.communication) * micro_batches +
                        std::max(0.0, times.reduction) + update.communication;
  return times;
}

double pipeline_seconds(const ScaleLayout& layout, int micro_batches,
                        const std::vector<StageTimes>& stages, double message) {
  const auto with = [&](int count) {
    const PipelineSchedule schedule =
        make_pipeline_schedule(layout.schedule, layout.pipeline, count, layout.stages_per_rank);
    return PipelineClock(schedule, stages, message).run();
  };
  const int few = 2 * layout.pipeline, more = 3 * layout.pipeline;
  if (micro_batches <= more) return with(micro_batches);
  const double short_time = with(few), long_time = with(more);
  return long_time + (micro_batches - more) * (long_time - short_time) / (more - few);
}

}  // namespace tensora::distributed
