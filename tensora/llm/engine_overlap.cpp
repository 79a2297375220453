// See Note [Overlapped steps].
#include <algorithm>

#include "tensora/core/pinned.h"
#include "tensora/llm/engine_loop.h"
#include "tensora/ops.h"

namespace tensora::llm {

// Copies whole blocks in all layers, before the step.
void Engine::Loop::copy_blocks() {
  const auto count = static_cast<size_t>(cache_.num_blocks());
  for (const BlockCopy& copy : step_.copies)
    for (const std::vector<Tensor>* part : {&cache_.keys, &cache_.values})
      for (const Tensor& tensor : *part) {
        const size_t bytes = tensor.nbytes() / count;
        char* data = static_cast<char*>(tensor.data_ptr());
        copy_bytes(data + static_cast<size_t>(copy.to) * bytes, tensor.device(),
                   data + static_cast<size_t>(copy.from) * bytes, tensor.device(), bytes);
      }
}

bool Engine::Loop::can_overlap() const {
  return *options_.overlap && scheduler_.has_room() &&
         std::all_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return job->device_chooses || job->is_paused; });
}

// Of a step whose other tokens the device chooses, the logits that the host chooses by, in order.
Tensor Engine::Loop::host_logits(const Tensor& logits) const {
  std::vector<int64_t> rows;
  int64_t row = 0;
  for (const Slice& slice : step_.slices) {
    const bool is_wanted = !static_cast<const Job&>(*slice.sequence).device_chooses;
    for (int64_t i = 0; i < slice.logits; ++i, ++row)
      if (is_wanted) rows.push_back(row);
  }
  if (rows.empty()) return {};
  const Tensor places = tensor(rows).to(logits.device());
  return index_select(logits, 0, places).cpu().contiguous();
}

// Queues the next step, then gives out the tokens of the one before.
void Engine::Loop::overlapped_step() {
  const Clock::time_point began = began_;
  Flight* const before = flight_;
  Flight* next = nullptr;
  try {
    scheduler_.plan(step_);
    if (step_.slices.empty() && !before) {
      sleep();  // all memory is held by requests that pause
      return;
    }
    if (!step_.slices.empty()) {
      start_slices();
      next = before == &flights_[0] ? &flights_[1] : &flights_[0];
      launch(*next);
    }
  } catch (const StepAbandoned&) {
    synchronize(parts_.model->device());  // its requests are ended before the next step
    next = nullptr;
  } catch (...) {
    fail_step(step_);
    next = nullptr;
  }
  flight_ = next;
  if (before) land(*before);
  remove_ended();
  steps_at_once_ = next ? 1 : 0;
  count_step(began);
}

void Engine::Loop::launch(Flight& flight) {
  copy_blocks();
  int64_t rows = 0;
  for (const Slice& slice : step_.slices) {
    Job& job = static_cast<Job&>(*slice.sequence);
    job.choices.clear();
    if (slice.logits == 1) job.choices.push_back(*job.sampler.choice(job.pending));
    rows += slice.logits;
  }
  const Batch& batch = builder_.build(step_, flight_ ? flight_->left : StepBefore{});
  const StepGraphs::Result result = steps_.forward(batch, cache_);
  ensure(rows == 0 || result.tokens.defined(), "engine: the device has chosen no tokens");
  flight.left = {result.tokens, steps_.advances(batch)};
  const Device device = parts_.model->device();
  const PinnedMemory* const pinned = pinned_memory(device.type);
  if (!flight.mark) flight.mark = make_queue_mark(device);
  if (pinned && flight.mark && rows > 0) {
    if (!flight.host.defined()) flight.host = pinned->empty({options_.max_sequences}, kInt64);
    pinned->copy_async(narrow(flight.host, 0, 0, rows), result.tokens);
  }
  if (flight.mark) flight.mark->set();
  scheduler_.queued(step_);
  std::swap(flight.step, step_);
}

void Engine::Loop::land(Flight& flight) {
  std::vector<int64_t> copied;
  const int64_t* chosen = nullptr;
  try {
    if (flight.mark) flight.mark->wait();
    if (flight.host.defined())
      chosen = flight.host.data_ptr<int64_t>();
    else if (flight.left.chosen.defined())
      chosen = (copied = to_vector<int64_t>(flight.left.chosen)).data();
  } catch (...) {
    fail_step(flight.step);
    return;
  }
  for (const Slice& slice : flight.step.slices) {
    if (slice.logits == 0) continue;
    const int64_t* const token = chosen++;
    if (!slice.sequence) continue;  // it has ended meanwhile
    Job& job = static_cast<Job&>(*slice.sequence);
    --job.pending;
    if (job.has_ended) continue;
    try {
      take_tokens(job, slice, nullptr, token);
    } catch (...) {
      fail(job, std::current_exception());
    }
  }
  scheduler_.publish(flight.step);
}

}  // namespace tensora::llm
