#include "tensora/jit/replay.h"

#include <algorithm>
#include <cstring>

#include "tensora/core/determinism.h"
#include "tensora/core/random.h"
#include "tensora/jit/function_lock.h"
#include "tensora/jit/plan.h"
#include "tensora/jit/stats.h"

// Note [Replay]
// A function with `replay` runs its body until two runs with one signature have done the same: the
// same ops, attributes and results, on memories of the same origin. From then on a call with that
// signature runs the recorded kernels alone. The signature is everything that the library can see:
// layouts of the tensors, which of them share a storage, the modes of the thread, and the numbers
// among the arguments.
//
// A memory is an argument's, or one that the body allocates, or captured: a tensor from outside,
// which is held, and whose contents are read (or written) as they are at the call. While a function
// is called with one and the same tensor, nobody can tell whether the body uses the argument or
// captured the same tensor. So a recording serves other storages only after it was confirmed by a
// run with another storage. What two runs do differently, such as a step counter among the
// attributes, or a tensor that is made anew from numbers of the host, is never replayed.

namespace tensora::jit {
namespace {

constexpr size_t kMostEntries = 64;
constexpr size_t kNumberBytes = 16;

/// Where the storage of a memory comes from.
struct Origin {
  enum class Kind : uint8_t { argument, captured, number, made } kind = Kind::made;
  size_t argument = 0;             // the first tensor of the call with this storage
  IntrusivePtr<Storage> captured;  // held
  size_t bytes = 0;
  Device device;
  int writes = 0;  // kernels that write to it

  bool operator==(const Origin& other) const {
    if (kind != other.kind || argument != other.argument || bytes != other.bytes ||
        !(device == other.device))
      return false;
    // Numbers of the body, such as the 2 of x * 2, are made anew in each run.
    return kind == Kind::number ? std::memcmp(captured->data(), other.captured->data(), bytes) == 0
                                : captured == other.captured;
  }
};

/// A tensor that the function returned.
struct RecordedResult {
  int memory = -1;  // -1: undefined
  Shape sizes;
  Strides strides;
  int64_t offset = 0;
  DType dtype = DType::float32;
  bool inference = false;

  bool operator==(const RecordedResult&) const = default;
};

size_t argument_of(std::span<const Tensor> tensors, const Storage* storage) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined() && tensors[i].impl().storage.get() == storage) return i;
  return tensors.size();
}

std::pair<uintptr_t, uintptr_t> range_of(const Storage& storage) {
  const auto first = reinterpret_cast<uintptr_t>(storage.data());
  return {first, first + storage.bytes()};
}

bool overlap(const Storage& a, const Storage& b) {
  const auto [a_first, a_last] = range_of(a);
  const auto [b_first, b_last] = range_of(b);
  return a_first < b_last && b_first < a_last;
}

// A random op's attributes with another place in the stream.
template <class Body>
void with_stream(const OpBase& op, const void* attrs, PhiloxState stream, Body&& body) {
  std::vector<std::pair<std::string, AttrValue>> values;
  for (const auto& [name, value] : op.list_attrs(attrs)) {
    AttrValue& now = values.emplace_back(name, value).second;
    if (name == "seed") now = to_attr_value(uint64_t{stream.seed});
    if (name == "offset") now = to_attr_value(uint64_t{stream.offset});
  }
  op.with_attrs(op, values, body);
}

PhiloxState stream_of(const OpBase& op, const void* attrs) {
  PhiloxState stream{};
  for (const auto& [name, value] : op.list_attrs(attrs)) {
    if (name == "seed") stream.seed = static_cast<uint64_t>(value.integer);
    if (name == "offset") stream.offset = static_cast<uint64_t>(value.integer);
  }
  return stream;
}

}  // namespace

// ---- signatures
// ----------------------------------------------------------------------------------

ReplayCall::ReplayCall() {
  add_word(thread_state.grad_enabled);
  add_word(thread_state.inference_mode);
  add_word(is_deterministic());
  add_word(static_cast<uint64_t>(default_dtype()));
  add_word(thread_state.autocast.devices);
  for (uint8_t dtype : thread_state.autocast.dtypes) add_word(dtype);
}

void ReplayCall::add(const Tensor& tensor) {
  tensors_.push_back(tensor);
  add_word(tensor.defined());
  if (!tensor.defined()) return;
  const View& view = tensor.view_of_data();
  add_word(argument_of(tensors_, tensor.impl().storage.get()));
  add_word(static_cast<uint64_t>(view.dtype));
  add_word(static_cast<uint64_t>(view.device.type));
  add_word(static_cast<uint64_t>(view.device.index));
  add_word(tensor.requires_grad());
  add_word(tensor.is_inference());
  add_word(tensor.impl().wrapped_number);
  add_word(static_cast<uint64_t>(tensor.storage_offset()));
  add_word(static_cast<uint64_t>(view.dim()));
  for (int64_t size : view.sizes) add_word(static_cast<uint64_t>(size));
  for (int64_t stride : view.strides) add_word(static_cast<uint64_t>(stride));
}

void ReplayCall::add(const std::vector<Tensor>& tensors) {
  add_word(tensors.size());
  for (const Tensor& tensor : tensors) add(tensor);
}

// ---- recordings
// ----------------------------------------------------------------------------------

struct Recording::State {
  std::span<const Tensor> arguments;
  PhiloxState before = current_generator().state();
  uint64_t graph_nodes = thread_state.last_rank;
  std::string refusal;  // why it cannot be replayed
  bool finished = false;
  Tape tape;                // without storages; never run
  std::vector<Tape> spare;  // copies of it for runs; guarded by the function's mutex
  uint64_t form = 0;        // see Recording::finish
  std::vector<Origin> origins;
  std::vector<const Storage*> storages;  // of the origins; made ones live only during the call
  std::shared_ptr<const Plan> plan;
  std::vector<RecordedResult> results;
  uint64_t counters = 0;                                  // of the random stream that a run takes
  std::vector<std::pair<size_t, uint64_t>> random_nodes;  // and where each takes its numbers

  int memory_of(const IntrusivePtr<Storage>& storage, bool made) {
    for (size_t i = 0; i < storages.size(); ++i)
      if (storages[i] == storage.get()) return static_cast<int>(i);
    Origin origin;
    origin.bytes = storage->bytes();
    origin.device = storage->device();
    origin.argument = argument_of(arguments, storage.get());
    if (origin.argument < arguments.size()) {
      origin.kind = Origin::Kind::argument;
    } else {
      origin.kind = made ? Origin::Kind::made : Origin::Kind::captured;
      if (!made) origin.captured = storage;
    }
    storages.push_back(storage.get());
    origins.push_back(std::move(origin));
    return static_cast<int>(origins.size()) - 1;
  }

  bool is_result(size_t memory) const {
    return std::any_of(results.begin(), results.end(), [&](const RecordedResult& result) {
      return result.memory == static_cast<int>(memory);
    });
  }

  void add_result(const Tensor& tensor) {
    RecordedResult& result = results.emplace_back();
    if (!tensor.defined()) return;
    const View& view = tensor.view_of_data();
    result = {memory_of(tensor.impl().storage, false),
              view.sizes,
              view.strides,
              tensor.storage_offset(),
              view.dtype,
              tensor.is_inference()};
    if (tensor.requires_grad()) refusal = "a result requires a gradient; call it under no_grad";
  }

  // The numbers that random ops drew count from where the run began.
  void note_random() {
    const PhiloxState after = current_generator().state();
    counters = after.offset - before.offset;
    if (after.seed != before.seed || after.offset < before.offset)
      refusal = "the function seeds a random generator";
    for (size_t i = 0; i < tape.size(); ++i) {
      const TapeNode& node = tape.nodes()[i];
      if (!node.op->random) continue;
      const PhiloxState drawn = stream_of(*node.op, node.attrs.get());
      if (drawn.seed != before.seed || drawn.offset < before.offset || drawn.offset > after.offset)
        refusal = concat(node.op->name, " draws from a generator of its own");
      random_nodes.emplace_back(i, drawn.offset - before.offset);
    }
  }
};

// Casts that autocast keeps were made outside, and a replay would not renew them: the body meets
// none.
Recording::Recording(const ReplayCall& call)
    : state_(std::make_shared<State>()),
      autocast_scopes_(std::exchange(thread_state.autocast_scopes, 0)) {
  state_->arguments = call.tensors_;
}

Recording::~Recording() { thread_state.autocast_scopes = autocast_scopes_; }

void Recording::refuse(std::string_view reason) {
  if (!state_->finished && state_->refusal.empty()) state_->refusal = reason;
}

void Recording::take(const Tape& tape, std::shared_ptr<const Plan> plan) {
  State& state = *state_;
  if (!state.finished) refuse("the body's kernels had to run before it was at its end");
  if (!state.refusal.empty()) return;
  for (size_t i = 0; i < tape.memories().size(); ++i) {
    const Memory& memory = tape.memories()[i];
    const int number = state.memory_of(memory.storage, memory.made_here);
    ensure(number == static_cast<int>(i), "jit: a memory was recorded twice");
  }
  state.tape = tape.without_storages();
  state.plan = std::move(plan);
  for (const TapeNode& node : state.tape.nodes())
    for (const Operand& output : state.tape.outputs(node))
      ++state.origins[static_cast<size_t>(output.memory)].writes;
  // The tape and the recording alone hold it: nobody else can change it.
  for (Origin& origin : state.origins)
    if (origin.kind == Origin::Kind::captured && origin.device.is_cpu() && origin.writes == 0 &&
        origin.bytes <= kNumberBytes && origin.captured->use_count() == 2)
      origin.kind = Origin::Kind::number;
}

void Recording::finish(std::span<const Tensor> results, uint64_t form) {
  State& state = *state_;
  state.form = form;
  if (thread_state.last_rank != state.graph_nodes)
    refuse("the body records gradients; call it under no_grad");
  if (!thread_state.deferral) refuse("TENSORA_JIT=0");
  state.finished = true;
  if (!thread_state.deferral) return;
  // The tape is taken when the scope flushes, with the numbers of its memories; results may refer
  // to more. Until then they are held by the caller.
  state.results.reserve(results.size());
  thread_state.deferral->flush();
  if (!state.refusal.empty()) return;
  for (const Tensor& result : results) state.add_result(result);
  state.note_random();
}

// ---- running
// -------------------------------------------------------------------------------------

struct Replay::Entry {
  std::vector<uint64_t> signature;
  std::shared_ptr<Recording::State> recording;
  std::vector<const Storage*> arguments;  // of the last confirmed run
  std::vector<bool> varied;               // argument i was seen with different storages
  bool confirmed = false;
  uint64_t calls = 0;
  std::string reason;  // why the last run of the body did not confirm the recording

  // Why two runs of the body did not do the same; empty if they did.
  static std::string difference(const Recording::State& a, const Recording::State& b) {
    for (const auto* state : {&a, &b})
      if (!state->refusal.empty()) return state->refusal;
    if (a.tape.size() != b.tape.size())
      return concat("it called ", a.tape.size(), " ops, then ", b.tape.size());
    for (size_t i = 0; i < a.tape.size(); ++i)
      if (std::string reason = node_difference(a, b, i); !reason.empty()) return reason;
    for (size_t i = 0; i < std::min(a.origins.size(), b.origins.size()); ++i)
      if (!(a.origins[i] == b.origins[i]))
        return "it uses a tensor that is another one in each call, and not an argument";
    if (a.origins.size() != b.origins.size() || a.results != b.results || a.form != b.form)
      return "its results are not the same parts of the same memories";
    if (a.counters != b.counters || a.random_nodes != b.random_nodes)
      return "it draws random numbers in another order";
    return {};
  }

  static std::string node_difference(const Recording::State& a, const Recording::State& b,
                                     size_t i) {
    const TapeNode &x = a.tape.nodes()[i], &y = b.tape.nodes()[i];
    const auto said = [&](std::string_view what) {
      return concat("op ", i + 1, " (", x.op->name, ") ", what);
    };
    if (x.op != y.op) return said(concat("was ", y.op->name, " in another call"));
    if (x.inputs != y.inputs || x.outputs != y.outputs || !(x.device == y.device) ||
        x.compute_dtype != y.compute_dtype)
      return said("had other operands");
    for (uint32_t k = 0; k < x.inputs + x.outputs; ++k) {
      const Operand &p = a.tape.operand(x.first + k), &q = b.tape.operand(y.first + k);
      if (p.memory != q.memory || p.offset_bytes != q.offset_bytes ||
          p.view.sizes != q.view.sizes || p.view.strides != q.view.strides ||
          p.view.dtype != q.view.dtype)
        return said("had other operands");
    }
    if (!x.op->random && !attrs_equal(*x.op, x.attrs.get(), y.attrs.get()))
      return said("had other attributes");
    return {};
  }
};

Replay::Replay(std::string name, int verify)
    : name_(std::move(name)),
      verify_(verify),
      mutex_(function_lock(reinterpret_cast<uintptr_t>(this))) {}
Replay::~Replay() = default;

bool Replay::is_possible() { return !thread_state.deferral && !thread_state.interceptor; }

Replay::Entry* Replay::find(const ReplayCall& call) {
  for (const auto& entry : entries_)
    if (entry->signature == call.words_) return entry.get();
  return nullptr;
}

// Whether a confirmed recording serves the storages of a call.
bool Replay::serves(const Entry& entry, const ReplayCall& call) {
  for (size_t i = 0; i < call.tensors_.size(); ++i) {
    if (!call.tensors_[i].defined()) continue;
    const Storage& storage = *call.tensors_[i].impl().storage;
    if (!storage.data() && storage.bytes() != 0) return false;  // another thread's scope holds it
    // A body that takes other parts of the storage than its argument must find them. A new storage
    // may have the address of one that is gone, so this is asked first.
    for (const Origin& origin : entry.recording->origins)
      if (origin.kind == Origin::Kind::argument && origin.argument == i &&
          storage.bytes() < origin.bytes)
        return false;
    if (&storage == entry.arguments[i]) continue;
    if (!entry.varied[i]) return false;
    for (const Origin& origin : entry.recording->origins)
      if (origin.captured && overlap(storage, *origin.captured)) return false;
    for (size_t k = 0; k < i; ++k)
      if (call.tensors_[k].defined() && call.tensors_[k].impl().storage.get() != &storage &&
          overlap(storage, *call.tensors_[k].impl().storage))
        return false;
  }
  return true;
}

std::optional<Replayed> Replay::run(const ReplayCall& call) {
  std::shared_ptr<Recording::State> recording;
  Tape tape;  // of this call alone: threads may replay one recording at once
  {
    const std::lock_guard lock(mutex_);
    Entry* const entry = find(call);
    if (!entry || !entry->confirmed) return {};
    ++entry->calls;
    if (verify_ > 0 && entry->calls % static_cast<uint64_t>(verify_) == 0) return {};
    if (!serves(*entry, call)) return {};
    recording = entry->recording;
    if (recording->spare.empty()) {
      tape = recording->tape.without_storages();
    } else {
      tape = std::move(recording->spare.back());
      recording->spare.pop_back();
    }
    ++replayed_;
  }
  Replayed result{run(*recording, tape, call), recording->form};
  const std::lock_guard lock(mutex_);
  recording->spare.push_back(std::move(tape));
  return result;
}

std::vector<Tensor> Replay::run(const Recording::State& recording, Tape& tape,
                                const ReplayCall& call) {
  const PhiloxState stream =
      recording.counters == 0 ? PhiloxState{} : current_generator().reserve(recording.counters);
  for (const auto& [node, offset] : recording.random_nodes) {
    const TapeNode& drawn = tape.nodes()[node];
    PhiloxState place = stream;
    place.offset += offset;
    with_stream(*drawn.op, drawn.attrs.get(), place,
                [&](const void* attrs) { tape.set_attrs(node, attrs); });
  }
  std::vector<IntrusivePtr<Storage>> storages;
  for (const Origin& origin : recording.origins) {
    if (origin.kind == Origin::Kind::made)
      storages.push_back(Storage::defer(origin.bytes, origin.device));
    else
      storages.push_back(origin.captured ? origin.captured
                                         : call.tensors_[origin.argument].impl().storage);
  }
  if (recording.plan) {  // null: no kernel at all
    count_plan_use(counts_of(*recording.plan));
    tape.set_storages(storages);
    for (size_t i = 0; i < storages.size(); ++i)  // the tape lets go of these when it can
      if (recording.origins[i].kind == Origin::Kind::made && !recording.is_result(i))
        storages[i].reset();
    jit::run(tape, *recording.plan);
    for (size_t i = 0; i < tape.memories().size(); ++i) tape.release(static_cast<int>(i));
  }
  for (size_t i = 0; i < storages.size(); ++i)
    if (recording.origins[i].kind != Origin::Kind::made)
      for (int k = 0; k < recording.origins[i].writes; ++k) storages[i]->bump_version();
  std::vector<Tensor> results;
  for (const RecordedResult& result : recording.results) {
    if (result.memory < 0) {
      results.emplace_back();
      continue;
    }
    results.push_back(make_view(storages[static_cast<size_t>(result.memory)], result.sizes,
                                result.strides, result.offset, result.dtype));
    results.back().impl().inference = result.inference;
  }
  return results;
}

void Replay::keep(const ReplayCall& call, Recording& recording) {
  // Let go of when the lock is free: what they hold may run a user's code when it is destroyed.
  std::unique_ptr<Entry> evicted;
  std::shared_ptr<Recording::State> replaced;
  const std::lock_guard lock(mutex_);
  Entry* entry = find(call);
  if (!entry) {
    if (entries_.size() == kMostEntries) {
      evicted = std::move(entries_.front());
      entries_.erase(entries_.begin());
    }
    entry = entries_.emplace_back(std::make_unique<Entry>()).get();
    entry->signature = call.words_;
  }
  recording.state_->arguments = {};
  std::vector<const Storage*> storages;
  for (const Tensor& tensor : call.tensors_)
    storages.push_back(tensor.defined() ? tensor.impl().storage.get() : nullptr);
  entry->reason =
      recording.state_->refusal.empty() ? "it was recorded only once" : recording.state_->refusal;
  if (entry->recording) {
    entry->reason = Entry::difference(*entry->recording, *recording.state_);
    check(!entry->confirmed || verify_ == 0 || entry->reason.empty(),
          "jit: ", name_.empty() ? "a function" : name_,
          " with replay is out of date: ", entry->reason);
  }
  const bool same = entry->reason.empty();
  if (!same) entry->varied.assign(storages.size(), false);
  for (size_t i = 0; same && i < storages.size(); ++i)
    if (storages[i] != entry->arguments[i]) entry->varied[i] = true;
  entry->confirmed = same;
  entry->arguments = std::move(storages);
  replaced = std::exchange(entry->recording, recording.state_);
}

std::string Replay::describe() const {
  const std::lock_guard lock(mutex_);
  std::string text = concat("replay: ", replayed_, " calls skipped the body\n");
  for (const auto& entry : entries_)
    if (!entry->confirmed) text += concat("not replayed: ", entry->reason, "\n");
  return text;
}

uint64_t Replay::replayed() const {
  const std::lock_guard lock(mutex_);
  return replayed_;
}

}  // namespace tensora::jit
