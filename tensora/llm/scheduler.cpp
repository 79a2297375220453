#include "tensora/llm/scheduler.h"

#include <algorithm>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

// Tokens of a part of a prompt whose logits are all wanted: with a vocabulary of 128k tokens the
// logits take 64 MiB.
constexpr int64_t kScoredTokens = 128;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, BlockManager& blocks)
    : options_(options), blocks_(blocks) {
  check(options.max_sequences > 0, "scheduler: expected at least one sequence at a time, got ",
        options.max_sequences);
  check(options.max_tokens >= options.max_sequences, "scheduler: a step of ", options.max_tokens,
        " tokens cannot continue ", options.max_sequences, " sequences");
  check(!options.batch_invariant || options.max_tokens % blocks.block_size() == 0,
        "scheduler: batch-invariant steps need a number of tokens that is a multiple of the block "
        "size ",
        blocks.block_size(), ", got ", options.max_tokens);
}

void Scheduler::add(Sequence& sequence) {
  ensure(!sequence.tokens.empty(), "scheduler: a sequence without tokens");
  waiting_.push_back(&sequence);
}

void Scheduler::remove(Sequence& sequence) {
  blocks_.release(sequence.blocks);
  std::erase(running_, &sequence);
  std::erase(waiting_, &sequence);
  std::erase(paused_, &sequence);
}

void Scheduler::pause(Sequence& sequence) {
  std::erase(running_, &sequence);
  std::erase(waiting_, &sequence);
  sequence.draft.clear();
  sequence.ahead = 0;
  paused_.push_back(&sequence);
}

void Scheduler::resume(Sequence& sequence) {
  std::erase(paused_, &sequence);
  const bool has_blocks = !sequence.blocks.list.empty();
  if (has_blocks && (running() < options_.max_sequences || options_.batch_invariant)) {
    running_.push_back(&sequence);
    return;
  }
  if (has_blocks) {
    blocks_.release(sequence.blocks);
    sequence.computed = 0;
    ++sequence.preemptions;
  }
  waiting_.push_front(&sequence);
}

// Takes the blocks of a sequence that pauses. False: there is none that has any, or it must not be
// read a second time.
bool Scheduler::reclaim() {
  if (options_.batch_invariant) return false;
  for (Sequence* sequence : paused_) {
    if (sequence->blocks.list.empty()) continue;
    blocks_.release(sequence->blocks);
    sequence->computed = 0;
    ++sequence->preemptions;
    return true;
  }
  return false;
}

// Takes the blocks for all of the prompt at once, so that reading it never gets stuck half-way.
bool Scheduler::begin(Sequence& sequence, Step& step) {
  const size_t copies = step.copies.size();
  // The last token must be computed: what follows it is not cached.
  const PrefixMatch match =
      blocks_.begin(sequence.blocks, sequence.salt, sequence.tokens, sequence.size() - 1);
  int64_t cached = match.cached_tokens, end = sequence.size();
  if (options_.batch_invariant) {
    cached -= cached % options_.max_tokens;
    end = sequence.limit;
  }
  // Where others are being continued, they need room to grow, or they would be preempted at once.
  if (!blocks_.prepare(sequence.blocks, cached, end, step.copies) ||
      blocks_.available() < (options_.batch_invariant ? 0 : running())) {
    step.copies.resize(copies);
    blocks_.release(sequence.blocks);
    return false;
  }
  sequence.computed = cached;
  if (!sequence.was_admitted) sequence.match = {cached, match.broken_at};
  sequence.was_admitted = true;
  return true;
}

// Whether one of those that are being read has the same text, as where several answers are asked
// for: what is read twice at the same time is not shared.
bool Scheduler::is_being_read(const Sequence& sequence,
                              const std::vector<const Sequence*>& readers) const {
  const auto most = std::ssize(sequence.tokens) - 1;
  if (most < blocks_.block_size()) return false;
  return std::any_of(readers.begin(), readers.end(), [&](const Sequence* other) {
    const int64_t shared = (other->blocks.published + 1) * blocks_.block_size();
    return std::min(most, other->size()) >= shared && sequence.salt == other->salt &&
           std::equal(sequence.tokens.begin(),
                      sequence.tokens.begin() + static_cast<ptrdiff_t>(shared),
                      other->tokens.begin());
  });
}

void Scheduler::admit(Step& step) {
  if (waiting_.empty()) return;
  int64_t left = options_.max_tokens - step.tokens;
  const bool shares = options_.share_prefixes && !options_.batch_invariant;
  std::vector<const Sequence*> readers;  // whose prompts have not been offered to others yet
  for (const Sequence* sequence : running_) {
    if (sequence->is_reading()) left -= sequence->size() - sequence->computed;
    if (shares && sequence->size() <= sequence->prompt_size) readers.push_back(sequence);
  }
  size_t place = 0;  // of the first one that can begin
  while (place < waiting_.size() && running() < options_.max_sequences && left > 0) {
    Sequence& next = *waiting_[place];
    if (is_being_read(next, readers)) {
      ++place;
      continue;
    }
    while (!begin(next, step)) {
      if (reclaim()) continue;
      if (!running_.empty()) return;
      if (std::any_of(paused_.begin(), paused_.end(),
                      [](const Sequence* paused) { return !paused->blocks.list.empty(); }))
        return;  // in batch-invariant mode: it waits for their end
      // Alone it fits, but not together with the block that it would copy.
      blocks_.clear_cache();
      ensure(begin(next, step), "scheduler: the cache cannot hold one sequence of ", next.size(),
             " tokens");
      break;
    }
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(place));
    running_.push_back(&next);
    if (shares && next.size() <= next.prompt_size) readers.push_back(&next);
    left -= next.size() - next.computed;
  }
}

void Scheduler::preempt(Sequence& sequence) {
  blocks_.release(sequence.blocks);
  sequence.computed = 0;
  sequence.draft.clear();
  ++sequence.preemptions;
  std::erase(running_, &sequence);
  waiting_.push_front(&sequence);
}

void Scheduler::restart(Sequence& sequence) {
  blocks_.release(sequence.blocks);
  sequence.computed = 0;
  sequence.draft.clear();
  std::erase(running_, &sequence);
  std::erase(waiting_, &sequence);
  waiting_.push_front(&sequence);
}

// False if this very sequence had to give its blocks back.
bool Scheduler::continue_one(Sequence& sequence, Step& step) {
  const int64_t room = options_.max_tokens - step.tokens - running();
  if (static_cast<int64_t>(sequence.draft.size()) > room)
    sequence.draft.resize(static_cast<size_t>(std::max<int64_t>(0, room)));
  while (true) {
    const int64_t count = 1 + static_cast<int64_t>(sequence.draft.size());
    if (blocks_.prepare(sequence.blocks, sequence.computed,
                        sequence.computed + count + sequence.ahead, step.copies)) {
      step.slices.push_back({&sequence, sequence.computed, count, count});
      step.tokens += count;
      return true;
    }
    if (!sequence.draft.empty() || sequence.ahead > 0) {
      sequence.draft.clear();
      sequence.ahead = 0;
      continue;
    }
    if (reclaim()) continue;
    Sequence& youngest = *running_.back();
    ensure(running_.size() > 1, "scheduler: the cache cannot hold one sequence of ",
           sequence.size(), " tokens");
    preempt(youngest);
    // A younger one that is already part of this step is not computed after all.
    std::erase_if(step.slices, [&](const Slice& slice) {
      if (slice.sequence != &youngest) return false;
      step.tokens -= slice.count;
      return true;
    });
    if (&youngest == &sequence) return false;
  }
}

void Scheduler::read_part(Sequence& sequence, Step& step) {
  int64_t count = std::min(sequence.size() - sequence.computed, options_.max_tokens - step.tokens);
  if (options_.batch_invariant)
    count = std::min(count, options_.max_tokens - sequence.computed % options_.max_tokens);
  if (sequence.scores_prompt) count = std::min(count, kScoredTokens);
  if (count <= 0) return;
  const bool ends = sequence.computed + count == sequence.size();
  step.slices.push_back({&sequence, sequence.computed, count,
                         sequence.scores_prompt ? count
                         : ends                 ? 1
                                                : 0});
  step.tokens += count;
}

void Scheduler::plan_one(Step& step) {
  while (!running_.empty()) {
    Sequence& sequence = *running_[turn_++ % running_.size()];
    if (sequence.is_reading())
      read_part(sequence, step);
    else
      continue_one(sequence, step);
    if (!step.slices.empty()) return;
  }
}

void Scheduler::plan(Step& step) {
  step.slices.clear();
  step.copies.clear();
  step.tokens = 0;
  if (!options_.batch_invariant)
    for (size_t i = 0; i < running_.size(); ++i) {
      Sequence& sequence = *running_[i];
      // The last token that it can have is on its way.
      if (sequence.pending > 0 && sequence.size() + sequence.pending >= sequence.limit) continue;
      if (!sequence.is_reading() && step.tokens < options_.max_tokens) continue_one(sequence, step);
    }
  const size_t before = running_.size();
  admit(step);
  if (options_.batch_invariant) {
    plan_one(step);
    return;
  }
  // A new one may have a single token to read.
  for (size_t i = 0; i < running_.size(); ++i)
    if (i >= before || running_[i]->is_reading()) read_part(*running_[i], step);
}

void Scheduler::queued(const Step& step) {
  for (const Slice& slice : step.slices) {
    slice.sequence->computed = slice.first + slice.count;
    slice.sequence->pending += slice.logits;
  }
}

void Scheduler::publish(const Step& step) {
  for (const Slice& slice : step.slices) {
    if (!slice.sequence || slice.sequence->blocks.list.empty()) continue;
    Sequence& sequence = *slice.sequence;
    const int64_t known = std::min({slice.first + slice.count, sequence.computed, sequence.size()});
    blocks_.publish(sequence.blocks, std::span(sequence.tokens).first(static_cast<size_t>(known)));
  }
}

void Scheduler::commit(const Step& step) {
  for (const Slice& slice : step.slices) {
    Sequence& sequence = *slice.sequence;
    if (sequence.blocks.list.empty()) continue;  // it has ended or restarted since
    // Of a continued sequence the last token is new: its keys and values are not there yet.
    const bool is_continued = slice.logits > 0 && !sequence.scores_prompt;
    sequence.computed = is_continued ? sequence.size() - 1 : slice.first + slice.count;
    int64_t shared = sequence.computed;
    if (options_.batch_invariant) {
      shared = std::min(shared, sequence.prompt_size);
      shared -= shared % options_.max_tokens;
    }
    blocks_.publish(sequence.blocks, std::span(sequence.tokens).first(static_cast<size_t>(shared)));
  }
}

}  // namespace tensora::llm
