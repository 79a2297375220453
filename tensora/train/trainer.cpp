#include "tensora/train/trainer.h"

#include <cmath>
#include <filesystem>

#include "tensora/amp/grad_scaler.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/core/random.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/io/checkpoint_manager.h"
#include "tensora/ops.h"
#include "tensora/ops/optim/multi_tensor.h"
#include "tensora/train/find_nan.h"
#include "tensora/train/number_text.h"
#include "tensora/train/parallel.h"
#include "tensora/train/progress_bar.h"
#include "tensora/train/run_lock.h"
#include "tensora/train/stop_on_signal.h"
#include "tensora/train/token_windows.h"

namespace tensora::train {
namespace {

// The checkpoints of one process are files, those of several ranks are folders: a run that finds
// none of its own kind must not begin again beside the others.
void check_kind_of_checkpoints(const std::string& run, bool several) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints", none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("step-")) continue;
    check(entry.is_directory() == several, run, ": the checkpoints were written by ",
          several ? "one process: resume without --parallel"
                  : "several ranks: resume with --parallel (one rank is enough)");
  }
}

}  // namespace

Trainer::Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options,
                 TrainerTask task)
    : model_(model), optimizer_(optimizer), options_(std::move(options)), task_(std::move(task)) {
  check(options_.steps >= 0, "Trainer: steps must not be negative, got ", options_.steps);
  check(options_.grad_accum >= 1, "Trainer: grad_accum must be at least 1, got ",
        options_.grad_accum);
  check(!options_.amp || *options_.amp == kBFloat16 || *options_.amp == kFloat16,
        "Trainer: amp must be bfloat16 or float16, got ", options_.amp.value_or(kFloat32));
  check(task_.loss != nullptr, "Trainer: the task has no loss");
  if (options_.parallel && options_.parallel->is_pipeline()) {
    check(task_.batch != nullptr, "Trainer: a pipeline needs the task's batches");
    check(!options_.amp, "Trainer: a pipeline computes without amp");
    check(!options_.find_nan, "Trainer: find_nan does not go with a pipeline");
  }
  scaler_ = std::make_unique<amp::GradScaler>(
      amp::GradScalerOptions{.enabled = options_.amp == kFloat16});
}

Trainer::~Trainer() = default;

bool Trainer::is_first() const { return !options_.parallel || options_.parallel->is_first(); }

bool Trainer::is_stop_requested() const {
  const bool here = StopOnSignal::requested();
  return options_.parallel ? options_.parallel->any(here) : here;
}

TrainerOutcome Trainer::run() {
  std::optional<RunLock> own;
  if (!options_.lock && is_first()) own.emplace(options_.folder);
  const RunLock* const lock = options_.lock ? options_.lock : own ? &*own : nullptr;
  if (lock && !lock->held())
    notices_.push_back(concat(options_.folder, ": this file system has no locks: make sure that ",
                              "no other process trains in this folder"));
  const StopOnSignal stopper;
  seed_ = default_generator().initial_seed();
  if (options_.parallel)
    options_.parallel->attach(model_, optimizer_);
  else
    checkpoints_ = std::make_unique<io::CheckpointManager>(
        options_.folder + "/checkpoints",
        io::CheckpointOptions{.keep_last = options_.keep_checkpoints,
                              .higher_is_better = task_.higher_is_better});
  const int64_t first = options_.parallel ? restore_ranks() : restore();
  if (is_first()) {
    if (task_.start) task_.start();
    open_logs(first);
  }
  ProgressBar bar(options_.steps, {.title = {}, .descriptor = is_first() ? 2 : -1});
  bar.start_at(first);
  for (const std::string& notice : notices_) bar.print(notice);
  outcome_.step = first;
  if (first == 0) look(0, bar);
  model_.train();
  int64_t saved = first;
  // Read once per step: a signal after that ends the next step, whose checkpoint is written.
  bool stop = is_stop_requested();
  for (int64_t at = first + 1; at <= options_.steps && !stop; ++at) {
    step(at);
    outcome_.step = at;
    stop = is_stop_requested();
    const bool checkpoint = is_due(at, options_.checkpoint_every) || stop || at == options_.steps;
    // On a GPU the losses of some steps are read together, so that it need not
    // wait for the host.
    if (checkpoint || pending_.front().loss.is_cpu() || pending_.size() >= 16) note_losses(bar);
    bar.update(at);
    look(at, bar);
    if (checkpoint) save(saved = at);
  }
  if (saved == first && first == 0 && outcome_.step == 0) save(0);
  outcome_.interrupted = outcome_.step < options_.steps;
  outcome_.signal = outcome_.interrupted ? StopOnSignal::signal() : 0;
  return outcome_;
}

int64_t Trainer::restore() {
  if (!options_.resume) {
    RunLogger::check_fresh(options_.folder);
    return 0;
  }
  check_kind_of_checkpoints(options_.folder, false);
  const auto found = checkpoints_->latest();
  if (!found) {
    if (const auto moved = RunLogger::set_aside(options_.folder))
      notices_.push_back(concat(options_.folder,
                                ": there is no checkpoint, so the run starts again ",
                                "from step 0; the earlier logs are in ", *moved));
    return 0;
  }
  for (const std::string& reason : found->skipped)
    notices_.push_back(concat("a newer checkpoint cannot be used: ", reason));
  if (!found->skipped.empty())
    notices_.push_back(concat("the run goes on from the older checkpoint ", found->path));
  check(options_.steps >= found->step, "Trainer: steps must be at least ", found->step,
        ", the step of the newest checkpoint in ", options_.folder, ", got ", options_.steps);
  model_.load_state_dict(found->state.at("model").to_state_dict());
  optimizer_.load_state_dict(found->state.at("optimizer"));
  scaler_->load_state_dict(found->state.at("scaler"));
  default_generator().set_state(found->state.at("random").to_tensor());
  if (task_.load) task_.load(found->state.at("task"));
  return found->step;
}

int64_t Trainer::restore_ranks() {
  Parallel& ranks = *options_.parallel;
  const std::string folder = options_.folder + "/checkpoints";
  if (!options_.resume) {
    if (ranks.is_first()) RunLogger::check_fresh(options_.folder);
    return 0;
  }
  check_kind_of_checkpoints(options_.folder, true);
  const auto found = ranks.restore(folder);
  if (!found) {
    const auto moved = ranks.is_first() ? RunLogger::set_aside(options_.folder) : std::nullopt;
    if (moved)
      notices_.push_back(concat(options_.folder,
                                ": there is no checkpoint of several ranks, so the run starts "
                                "again from step 0; the earlier logs are in ",
                                *moved));
    return 0;
  }
  const auto& [step, state] = *found;
  check(options_.steps >= step, "Trainer: steps must be at least ", step,
        ", the step of the newest checkpoint in ", options_.folder, ", got ", options_.steps);
  scaler_->load_state_dict(state.at("scaler"));
  if (task_.load) task_.load(state.at("task"));
  return step;
}

void Trainer::open_logs(int64_t first) {
  RunLoggerOptions options;
  // What was validated and sampled before the first step is done again.
  if (options_.resume) options.resume_after = first == 0 ? -1 : first;
  log_ = std::make_unique<RunLogger>(options_.folder, options);
}

void Trainer::save(int64_t step) {
  Value state = Value::dict();
  if (options_.parallel) {
    state["scaler"] = scaler_->state_dict();
    state["task"] = task_.save ? task_.save() : Value();
    return options_.parallel->save(options_.folder + "/checkpoints", step,
                                   options_.keep_checkpoints, state);
  }
  state["step"] = step;
  state["model"] = model_.state_dict();
  state["optimizer"] = optimizer_.state_dict();
  state["scaler"] = scaler_->state_dict();
  state["random"] = default_generator().get_state();
  state["task"] = task_.save ? task_.save() : Value();
  checkpoints_->save(step, state, validated_at_ == step ? validated_ : std::nullopt);
  checkpoints_->wait();
}

Tensor Trainer::loss_of(int64_t step, int64_t part) {
  if (!options_.amp) return task_.loss(step, part);
  const autocast lower(*options_.amp);
  return task_.loss(step, part);
}

// Runs the step once more and checks the result of every op. It draws other random numbers,
// but what breaks a run is seldom a matter of chance.
void Trainer::name_the_op(int64_t step, int64_t part, bool is_nan) {
  NanFinder finder(is_nan ? NanFinder::What::nan : NanFinder::What::infinite);
  const InterceptorScope scope(finder);
  try {
    loss_of(step, part);
  } catch (const Error& error) {
    fail("the loss is not finite at step ", step, ": ", error.what());
  }
  fail("the loss is not finite at step ", step,
       ", but no op made it so from finite numbers: look at "
       "the inputs and the weights");
}

// Forward and backward of this rank's micro-batches; the mean of their losses.
Tensor Trainer::gradients_of(int64_t step) {
  Parallel* const ranks = options_.parallel;
  Tensor total;
  for (int64_t i = 0; i < options_.grad_accum; ++i) {
    const int64_t part = ranks ? i * ranks->size() + ranks->rank() : i;
    Tensor loss = loss_of(step, part);
    if (options_.find_nan) {
      const auto value = loss.item<double>();
      if (!std::isfinite(value)) name_the_op(step, part, std::isnan(value));
    }
    if (options_.grad_accum > 1) loss = loss / double(options_.grad_accum);
    total = total.defined() ? total + loss.detach() : loss.detach();
    const Tensor scaled = scaler_->scale(loss);
    if (ranks)
      ranks->backward(scaled, i + 1 == options_.grad_accum);
    else
      scaled.backward();
  }
  return total;
}

Tensor Trainer::pass_through_ranks(int64_t step) {
  std::vector<MicroBatch> batches;
  for (int64_t part = 0; part < options_.grad_accum; ++part)
    batches.push_back(task_.batch(step, part));
  return options_.parallel->pass(batches);
}

void Trainer::step(int64_t step) {
  const double rate =
      task_.learning_rate ? task_.learning_rate(step) : optimizer_.param_groups().front().lr();
  if (task_.learning_rate)
    for (optim::ParamGroup& group : optimizer_.param_groups()) group.set_lr(rate);
  const detect_anomaly watched(options_.find_nan);
  Parallel* const ranks = options_.parallel;
  // What a step draws (dropout) depends on the step and the rank alone, so that a run can be
  // resumed by any number of ranks.
  if (ranks)
    manual_seed(hash_key(seed_, static_cast<uint64_t>(step), static_cast<uint64_t>(ranks->rank())));
  Tensor total = ranks && ranks->is_pipeline() ? pass_through_ranks(step) : gradients_of(step);
  if (ranks) total = ranks->mean(total);
  if (ranks && scaler_->is_enabled()) ranks->share_overflow();
  Tensor norm;
  if (options_.clip_norm > 0) {
    scaler_->unscale_(optimizer_);
    norm = ranks ? ranks->clip_grad_norm_(options_.clip_norm)
                 : clip_grad_norm_(model_.parameters(), options_.clip_norm);
  }
  scaler_->step(optimizer_);
  scaler_->update();
  optimizer_.zero_grad();
  pending_.push_back({step, rate, total.to(kFloat32), norm});
}

void Trainer::note_losses(ProgressBar& bar) {
  if (pending_.empty()) return;
  TensorList figures;
  for (const Pending& one : pending_) {
    figures.push_back(one.loss);
    figures.push_back(one.norm.defined() ? one.norm.to(kFloat32) : zeros_like(one.loss));
  }
  const std::vector<double> values = to_vector<double>(stack(figures));
  for (size_t i = 0; i < pending_.size(); ++i) {
    const double loss = values[2 * i];
    Scalars row = {{"loss/train", loss}, {"lr", pending_[i].learning_rate}};
    if (pending_[i].norm.defined()) row.emplace_back("grad_norm", values[2 * i + 1]);
    if (bar.rate() > 0)
      row.emplace_back(options_.unit + "s_per_second",
                       bar.rate() * double(options_.units_per_step));
    if (log_) log_->scalars(pending_[i].step, row);
    check(std::isfinite(loss), "the loss is ", exact_text(loss), " at step ", pending_[i].step,
          "; nothing was saved since. Start again from the last checkpoint "
          "with a lower learning "
          "rate, or with find_nan to learn which op made it");
    outcome_.loss = loss;
  }
  bar.set("loss", outcome_.loss);
  if (options_.unit != "step" && bar.rate() > 0)
    bar.set(options_.unit + "s/s", std::round(bar.rate() * double(options_.units_per_step)));
  pending_.clear();
}

// Validation and samples; both leave the random numbers of training alone.
void Trainer::look(int64_t step, ProgressBar& bar) {
  const bool last = step == options_.steps;
  const bool validate = task_.validate && (is_due(step, options_.validate_every) || last);
  const bool sample = task_.sample && (is_due(step, options_.sample_every) || last);
  if (!validate && !sample) return;
  note_losses(bar);
  if (options_.parallel)
    options_.parallel->evaluate([&] { look_now(step, bar, validate, sample); });
  else
    look_now(step, bar, validate, sample);
}

void Trainer::look_now(int64_t step, ProgressBar& bar, bool validate, bool sample) {
  const no_grad silent;
  model_.eval();
  Generator own(static_cast<uint64_t>(step));
  const GeneratorScope apart(own);
  if (validate) {
    const Scalars figures = task_.validate();
    if (log_) log_->scalars(step, figures);
    outcome_.validation = validated_ = figures.front().second;
    validated_at_ = step;
    bar.set(figures.front().first.substr(figures.front().first.rfind('/') + 1),
            figures.front().second);
  }
  if (sample) {
    const std::string text = task_.sample();
    if (log_) log_->text(step, "sample", text);
    bar.print(concat("-- step ", step, " --\n", text, "\n"));
  }
  model_.train();
}

double warmup_cosine(int64_t step, int64_t steps, int64_t warmup, double peak, double floor) {
  if (step < warmup) return peak * double(step) / double(warmup);
  if (steps <= warmup) return peak;
  const double part = double(step - warmup) / double(steps - warmup);
  return floor + (peak - floor) * 0.5 * (1 + std::cos(M_PI * std::min(part, 1.0)));
}

}  // namespace tensora::train
