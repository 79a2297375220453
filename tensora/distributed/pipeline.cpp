#include "tensora/distributed/pipeline.h"

#include <map>
#include <set>

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/split_backward.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using Kind = PipelineActionKind;
constexpr int64_t kMostDims = 8;
constexpr int64_t kHeaderSize = kMostDims + 3;  // dtype, device, dims, sizes

/// A stage's forward of one micro-batch, until its backward is over.
struct Passage {
  Tensor input, output;
  Tensor gradient;  // of the output, between the two parts of a backward
  SplitBackward split;
};

Device header_device(const ProcessGroup& group) {
  return Device(group.backend() == "nccl" ? DeviceType::cuda : DeviceType::cpu);
}

Tensor header_of(const Tensor& data, const ProcessGroup& group) {
  check(data.dim() <= kMostDims, "pipeline: the output of a stage has ", data.dim(),
        " dims, at most ", kMostDims, " are possible");
  std::vector<int64_t> header(static_cast<size_t>(kHeaderSize), 0);
  header[0] = static_cast<int64_t>(data.dtype());
  header[1] = static_cast<int64_t>(data.device().type);
  header[2] = data.dim();
  for (int64_t d = 0; d < data.dim(); ++d) header[static_cast<size_t>(3 + d)] = data.size(d);
  return tensor(header, {.dtype = kInt64}).to(header_device(group));
}

Tensor empty_as(const Tensor& header) {
  const std::vector<int64_t> values = to_vector<int64_t>(header);
  Shape sizes;
  for (int64_t d = 0; d < values[2]; ++d) sizes.push_back(values[static_cast<size_t>(3 + d)]);
  return empty(sizes, {.dtype = static_cast<DType>(values[0]),
                       .device = Device(static_cast<DeviceType>(values[1]))});
}

}  // namespace

/// One step on one rank.
class Pipeline::Run {
 public:
  Run(Pipeline& pipeline, const Tensor& input, const Loss& loss, DataParallel* parallel)
      : pipeline_(pipeline), loss_(loss), parallel_(parallel) {
    const PipelineSchedule& schedule = pipeline.schedule_;
    if (pipeline.group_->rank() != 0) return;
    check(input.defined() && input.dim() >= 1, "pipeline: the first rank needs an input");
    check(input.size(0) > 0 && input.size(0) % schedule.micro_batches == 0,
          "pipeline: an input of ", input.size(0), " rows cannot be cut into ",
          schedule.micro_batches, " equal micro-batches");
    for (const Tensor& part : chunk(input, schedule.micro_batches, 0)) inputs_.push_back(part);
  }

  // After an exception, other ranks may still read what was sent.
  ~Run() {
    for (const Sent& sent : sent_)
      if (!sent.work->done()) sent.work->keep(std::make_shared<Tensor>(sent.data));
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Tensor perform() {
    const auto rank = static_cast<size_t>(pipeline_.group_->rank());
    const std::vector<PipelineAction>& actions = pipeline_.schedule_.actions[rank];
    for (size_t i = 0; i < actions.size(); ++i) {
      std::optional<DataParallel::NoSync> quiet;
      if (parallel_ && i + 1 < actions.size()) quiet.emplace(*parallel_);
      perform(actions[i]);
    }
    for (const Sent& sent : sent_) sent.work->wait();
    return losses_.empty() ? Tensor() : stack(losses_);
  }

 private:
  struct Sent {
    WorkPtr work;
    Tensor data;  // whose memory the call uses
  };
  using Key = std::pair<int, int>;  // stage and micro-batch

  int ranks() const { return pipeline_.schedule_.ranks; }
  bool is_last(int stage) const { return stage == pipeline_.schedule_.stages() - 1; }

  void perform(const PipelineAction& action) {
    const Key key(action.stage, action.micro_batch);
    if (action.kind == Kind::forward) return forward(key, passages_[key]);
    Passage& passage = passages_.at(key);
    if (action.kind != Kind::backward_weight) passage.gradient = take_gradient(key, passage);
    // The first stage's input needs no gradient: its backward is that of the weights.
    const bool first = action.stage == 0;
    if (action.kind == Kind::backward_input) {
      if (!first)
        send_gradient(
            key, passage.split.input_gradient(passage.output, passage.input, passage.gradient));
      return;
    }
    if (action.kind == Kind::backward_weight && !first) {
      passage.split.accumulate_weights();
    } else {
      passage.output.backward(passage.gradient);
      if (!first) send_gradient(key, passage.input.grad());
    }
    passages_.erase(key);
  }

  void forward(const Key& key, Passage& passage) {
    const int stage = key.first;
    if (stage == 0) {
      passage.input = inputs_[static_cast<size_t>(key.second)];
    } else {
      passage.input = receive_activation(key);
      passage.input.requires_grad_();
    }
    passage.output = pipeline_.stages_[static_cast<size_t>(stage / ranks())](passage.input);
    check(passage.output.defined(), "pipeline: stage ", stage, " returned an undefined tensor");
    if (is_last(stage)) {
      passage.output = loss_(passage.output, key.second);
      check(passage.output.defined() && passage.output.numel() == 1,
            "pipeline: the loss of a micro-batch must have one element");
      losses_.push_back(passage.output.detach().reshape({}));
      return;
    }
    check(passage.output.is_floating_point(), "pipeline: stage ", stage,
          " must return floating-point numbers, got ", passage.output.dtype());
    send_activation(key, passage.output.detach().contiguous());
  }

  void send(ProcessGroup& group, const Tensor& data, int to) {
    std::erase_if(sent_, [](const Sent& sent) { return sent.work->done(); });
    sent_.push_back({group.send(data_of(data), to), data});
  }

  void send_activation(const Key& key, const Tensor& data) {
    if (ranks() == 1) {
      at_home_[{key.first + 1, key.second}] = data;
      return;
    }
    ProcessGroup& group = *pipeline_.forwards_;
    const int to = (group.rank() + 1) % ranks();
    // Micro-batches are equally large: the first tells the shape of all.
    Tensor& like = shapes_[key.first];
    if (!like.defined()) {
      send(group, header_of(data, group), to);
      like = data;
    }
    check(like.sizes() == data.sizes() && like.dtype() == data.dtype(), "pipeline: stage ",
          key.first, " returned ", like.dtype(), " of shape ", like.sizes(),
          " for the first micro-batch and ", data.dtype(), " of shape ", data.sizes(),
          " for number ", key.second);
    send(group, data, to);
  }

  Tensor receive_activation(const Key& key) {
    if (ranks() == 1) return take(at_home_, key);
    ProcessGroup& group = *pipeline_.forwards_;
    const int from = (group.rank() + ranks() - 1) % ranks();
    Tensor& like = shapes_[key.first - 1];
    if (!like.defined()) {
      const Tensor header = empty({kHeaderSize}, {.dtype = kInt64, .device = header_device(group)});
      group.recv(data_of(header), from)->wait();
      like = empty_as(header);
    }
    const Tensor data = empty_like(like);
    group.recv(data_of(data), from)->wait();
    return data;
  }

  void send_gradient(const Key& key, const Tensor& gradient) {
    check(gradient.defined(), "pipeline: the output of stage ", key.first,
          " does not depend on its input");
    const Tensor data = gradient.detach().contiguous();
    if (ranks() == 1) {
      at_home_[{key.first - 1, key.second}] = data;
      return;
    }
    ProcessGroup& group = *pipeline_.backwards_;
    send(group, data, (group.rank() + ranks() - 1) % ranks());
  }

  /// Undefined for the loss, whose gradient is 1.
  Tensor take_gradient(const Key& key, const Passage& passage) {
    if (is_last(key.first)) return {};
    if (ranks() == 1) return take(at_home_, key);
    ProcessGroup& group = *pipeline_.backwards_;
    const Tensor data = empty(passage.output.sizes(),
                              {.dtype = passage.output.dtype(), .device = passage.output.device()});
    group.recv(data_of(data), (group.rank() + 1) % ranks())->wait();
    return data;
  }

  static Tensor take(std::map<Key, Tensor>& from, const Key& key) {
    const auto found = from.find(key);
    ensure(found != from.end(), "a pipeline of one rank lacks a message");
    Tensor data = std::move(found->second);
    from.erase(found);
    return data;
  }

  Pipeline& pipeline_;
  const Loss& loss_;
  DataParallel* parallel_;
  std::vector<Tensor> inputs_, losses_;
  std::map<Key, Passage> passages_;
  std::map<Key, Tensor> at_home_;  // messages between stages of one rank
  std::map<int, Tensor> shapes_;   // of outputs, by stage
  std::vector<Sent> sent_;
};

Pipeline::Pipeline(std::vector<Stage> stages, PipelineOptions options)
    : stages_(std::move(stages)), group_(options.group ? options.group : world()) {
  check_as<ValueError>(!stages_.empty(), "pipeline: this rank has no stage");
  schedule_ = make_pipeline_schedule(options.schedule, group_->size(), options.micro_batches,
                                     static_cast<int>(stages_.size()));
  check_pipeline_schedule(schedule_);
  check_agreement();
  forwards_ = group_->split(0);
  backwards_ = group_->split(0);
}

// Ranks with different tables would wait for one another.
void Pipeline::check_agreement() const {
  const std::vector<int64_t> mine = {schedule_.stages_per_rank, schedule_.micro_batches};
  std::vector<int64_t> sent = {mine[0], mine[1], -mine[0], -mine[1]};
  for (const char letter : schedule_.name.substr(0, 2)) {
    sent.push_back(letter);
    sent.push_back(-letter);
  }
  const Tensor most = tensor(sent, {.dtype = kInt64}).to(header_device(*group_));
  group_->all_reduce(data_of(most), ReduceOp::maximum)->wait();
  check_as<RankMismatchError>(
      to_vector<int64_t>(most) == sent, "pipeline: the ranks have different schedules; on rank ",
      group_->rank(), " it is ", schedule_.name, " of ", schedule_.micro_batches,
      " micro-batches with ", schedule_.stages_per_rank, " stages per rank");
}

Tensor Pipeline::step(const Tensor& input, const Loss& loss, DataParallel* parallel) {
  return Run(*this, input, loss, parallel).perform();
}

}  // namespace tensora::distributed
