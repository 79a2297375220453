#include "tensora/jit/replay.h"

#include <algorithm>

#include "tensora/core/determinism.h"
#include "tensora/core/random.h"
#include "tensora/jit/function_lock.h"
#include "tensora/jit/plan_key.h"
#include "tensora/jit/replay_recording.h"
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
//
// Note [Replayed gradients]
// A body may record gradients and run backward: the ops are on the tape, and the graph that it
// makes must be gone when it returns. What is left are the gradients of leaves. A recording holds
// which leaves the body met, which gradient it found if it read that, and which one it left there;
// a replay asks for the same gradient before, and puts the new one there. An optimizer counts its
// steps and looks up its learning rate on the host. This work is a host step (HostStep), which a
// replay does again: before any kernel runs, it is called on the tensors of the replay, and what it
// calls must be the recorded ops; only their attributes may be others. If it calls other ops, all
// kernels run one by one in the order of the program, and the recording is given up. The settings
// of a step must be the same before the body, in it, and after it: what the body changes would be
// lost.

namespace tensora::jit {
namespace {

constexpr size_t kMostEntries = 64;

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

// Whether attributes are equal, apart from the place in the random stream.
bool same_but_stream(const OpBase& op, const void* a, const void* b) {
  if (!op.random) return attrs_equal(op, a, b);
  const auto x = op.list_attrs(a), y = op.list_attrs(b);
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].first != "seed" && x[i].first != "offset" &&
        to_string(std::span(&x[i], 1)) != to_string(std::span(&y[i], 1)))
      return false;
  return true;
}

// Whether a gradient is the tensor that the recording found.
bool is_like(const Tensor& found, const RecordedTensor& wanted, const Storage* storage) {
  if (wanted.memory < 0 || !found.defined()) return wanted.memory < 0 && !found.defined();
  const View& view = found.impl().view;
  return found.impl().storage.get() == storage && view.sizes == wanted.sizes &&
         view.strides == wanted.strides && found.storage_offset() == wanted.offset &&
         view.dtype == wanted.dtype;
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
  add_word(tensor.requires_grad() && tensor.is_leaf());
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
    if (a.switches != b.switches) return "a leaf began or ceased to require gradients";
    if (a.tape.size() != b.tape.size())
      return concat("it called ", a.tape.size(), " ops, then ", b.tape.size());
    for (size_t i = 0; i < a.tape.size(); ++i)
      if (std::string reason = node_difference(a, b, i); !reason.empty()) return reason;
    for (size_t i = 0; i < std::min(a.origins.size(), b.origins.size()); ++i)
      if (!(a.origins[i] == b.origins[i]))
        return "it uses a tensor that is another one in each call, and not an argument";
    if (a.origins.size() != b.origins.size() || a.results != b.results || a.form != b.form)
      return "its results are not the same parts of the same memories";
    if (a.leaves != b.leaves)
      return "it finds or leaves other gradients in each call (set them to none in the body)";
    if (!std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                    [](const RecordedStep& x, const RecordedStep& y) {
                      return x.first == y.first && x.last == y.last && x.gradients == y.gradients;
                    }))
      return "its optimizers step in another way in each call";
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
    const bool free =
        a.is_in_step(i) && serves_attrs(x, a.tape.operand(x.first), x.attrs.get(), y.attrs.get());
    if (!free && !same_but_stream(*x.op, x.attrs.get(), y.attrs.get()))
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
  for (const RecordedStep& step : entry.recording->steps)
    if (step.step.owner.expired()) return false;
  // Leaves may require gradients that did not, or the other way round.
  if (entry.recording->switches != leaf_switches().load(std::memory_order_relaxed)) return false;
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

// Whether the leaves have the gradients that the body found.
bool Replay::finds_gradients(const Recording::State& recording, const ReplayCall& call) {
  for (const RecordedLeaf& leaf : recording.leaves) {
    if (!leaf.reads) continue;
    const Storage* storage = nullptr;
    if (leaf.before.memory >= 0) {
      const Origin& origin = recording.origins[static_cast<size_t>(leaf.before.memory)];
      storage = origin.captured ? origin.captured.get()
                                : call.tensors_[origin.argument].impl().storage.get();
    }
    if (!is_like(leaf.accumulator(call.tensors_).grad(), leaf.before, storage)) return false;
  }
  return true;
}

// What the host steps of the recording depend on, before the body runs.
void Replay::note_settings(const Recording::State& recording, ReplayCall& call) {
  for (const RecordedStep& step : recording.steps)
    if (const auto owner = step.step.owner.lock()) call.settings_.push_back(step.step.settings());
}

std::optional<Replayed> Replay::run(ReplayCall& call) {
  std::shared_ptr<Recording::State> recording;
  bool replays = false;
  Tape tape;  // of this call alone: threads may replay one recording at once
  {
    const std::lock_guard lock(mutex_);
    Entry* const entry = find(call);
    if (!entry || !entry->recording) return {};
    recording = entry->recording;
    if (entry->confirmed) {
      ++entry->calls;
      replays = (verify_ == 0 || entry->calls % static_cast<uint64_t>(verify_) != 0) &&
                serves(*entry, call);
    }
  }
  if (!replays || !finds_gradients(*recording, call)) {
    note_settings(*recording, call);
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    ++replayed_;
    if (!recording->spare.empty()) {
      tape = std::move(recording->spare.back());
      recording->spare.pop_back();
    }
  }
  if (tape.empty()) tape = recording->tape.without_storages();
  bool complete = true;
  Replayed result{run(*recording, tape, call, complete), recording->form};
  const std::lock_guard lock(mutex_);
  if (complete) {
    recording->spare.push_back(std::move(tape));
  } else if (Entry* const entry = find(call); entry && entry->recording == recording) {
    entry->confirmed = false;
    entry->reason = "its optimizer's step called other ops than before";
  }
  return result;
}

std::vector<Tensor> Replay::run(const Recording::State& recording, Tape& tape,
                                const ReplayCall& call, bool& complete) {
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
    if (recording.steps.empty()) {
      recording.let_go(storages);
      jit::run(tape, *recording.plan);
    } else {
      complete = run_with_steps(recording, tape, storages, call.tensors_);
    }
    for (size_t i = 0; i < tape.memories().size(); ++i) tape.release(static_cast<int>(i));
  }
  for (size_t i = 0; i < storages.size(); ++i)
    if (recording.origins[i].kind != Origin::Kind::made)
      for (int k = 0; k < recording.origins[i].writes; ++k) storages[i]->bump_version();
  for (const RecordedLeaf& leaf : recording.leaves)
    if (!leaf.keeps && recording.steps.empty())
      leaf.accumulator(call.tensors_).set_grad(leaf.after.in(storages));
  std::vector<Tensor> results;
  for (const RecordedTensor& result : recording.results) results.push_back(result.in(storages));
  return results;
}

// A learning rate that the body itself sets would stay what it was.
std::string Replay::settings_difference(const ReplayCall& call, const Recording::State& state) {
  for (size_t i = 0; i < std::min(call.settings_.size(), state.steps.size()); ++i)
    if (call.settings_[i] != state.steps[i].settings)
      return "the body changes the settings of an optimizer; change them outside";
  return {};
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
    if (entry->reason.empty()) entry->reason = settings_difference(call, *recording.state_);
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
