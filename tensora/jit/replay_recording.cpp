#include "tensora/jit/replay_recording.h"

#include <algorithm>
#include <cstring>

#include "tensora/autograd/sparse_gradient.h"
#include "tensora/core/random.h"
#include "tensora/dispatch/divided.h"

namespace tensora::jit {
namespace {

constexpr size_t kNumberBytes = 16;

PhiloxState stream_of(const OpBase& op, const void* attrs) {
  PhiloxState stream{};
  for (const auto& [name, value] : op.list_attrs(attrs)) {
    if (name == "seed") stream.seed = static_cast<uint64_t>(value.integer);
    if (name == "offset") stream.offset = static_cast<uint64_t>(value.integer);
  }
  return stream;
}

}  // namespace

// Numbers of the body, such as the 2 of x * 2, are made anew in each run.
bool Origin::operator==(const Origin& other) const {
  if (kind != other.kind || argument != other.argument || bytes != other.bytes ||
      !(device == other.device))
    return false;
  return kind == Kind::number ? std::memcmp(captured->data(), other.captured->data(), bytes) == 0
                              : captured == other.captured;
}

Tensor RecordedTensor::in(std::span<const IntrusivePtr<Storage>> storages) const {
  if (memory < 0) return {};
  Tensor tensor = make_view(storages[static_cast<size_t>(memory)], sizes, strides, offset, dtype);
  tensor.impl().inference = inference;
  return tensor;
}

size_t argument_of(std::span<const Tensor> tensors, const Storage* storage) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined() && tensors[i].impl().storage.get() == storage) return i;
  return tensors.size();
}

// ---- what the body does
// --------------------------------------------------------------------------

int Recording::State::memory_of(const IntrusivePtr<Storage>& storage, bool made) {
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

namespace {

RecordedTensor layout_of(const Tensor& tensor) {
  const View& view = tensor.impl().view;
  return {-1, view.sizes, view.strides, tensor.storage_offset(), view.dtype, tensor.is_inference()};
}

}  // namespace

// A sparse gradient, and a tensor that is divided among devices, are not parts of one memory.
bool Recording::State::is_array(const Tensor& tensor) {
  if (!tensor.defined() || (tensor.impl().storage && !is_sparse(tensor) && !is_divided(tensor)))
    return true;
  refuse("it leaves or finds a tensor that is sparse or divided among devices");
  return false;
}

RecordedTensor Recording::State::recorded(const Tensor& tensor) {
  if (!tensor.defined() || !is_array(tensor)) return {};
  RecordedTensor result = layout_of(tensor);
  result.memory = memory_of(tensor.impl().storage, false);
  return result;
}

Recording::State::State(const ReplayCall& call)
    : arguments(call.tensors_), before(current_generator().state()) {
  if (!thread_state.grad_enabled) return;
  for (const Tensor& argument : arguments)
    if (argument.defined() && argument.requires_grad() && !argument.is_leaf())
      refuse("an argument belongs to a graph; detach it");
}

void Recording::State::meet(AccumulateGrad& leaf, bool reads) {
  if (finished) return;
  for (const Met& known : met)
    if (known.leaf.node.get() == &leaf) return;
  met.emplace_back().leaf.node = IntrusivePtr<AccumulateGrad>::share(&leaf);
  met.back().leaf.reads = reads;
  if (reads) met.back().before = leaf.grad();  // it is known by now: this read is not met again
}

bool Recording::State::is_in_step(size_t node) const {
  return std::any_of(steps.begin(), steps.end(), [&](const RecordedStep& step) {
    return step.first <= node && node < step.last;
  });
}

void Recording::State::take(const Tape& from, std::shared_ptr<const Plan> its_plan) {
  for (size_t i = 0; i < from.memories().size(); ++i) {
    const Memory& memory = from.memories()[i];
    const int number = memory_of(memory.storage, memory.made_here);
    ensure(number == static_cast<int>(i), "jit: a memory was recorded twice");
  }
  tape = from.without_storages();
  plan = std::move(its_plan);
  for (size_t i = 0; i < tape.size(); ++i)
    if (!is_in_step(i))  // a step counts its writes itself
      for (const Operand& output : tape.outputs(tape.nodes()[i]))
        ++origins[static_cast<size_t>(output.memory)].writes;
  std::vector<bool> written(origins.size(), false);
  for (const TapeNode& node : tape.nodes())
    for (const Operand& output : tape.outputs(node))
      written[static_cast<size_t>(output.memory)] = true;
  // The tape and the recording alone hold it: nobody else can change it.
  for (size_t i = 0; i < origins.size(); ++i) {
    Origin& origin = origins[i];
    if (origin.kind == Origin::Kind::captured && origin.device.is_cpu() && !written[i] &&
        origin.bytes <= kNumberBytes && origin.captured->use_count() == 2)
      origin.kind = Origin::Kind::number;
  }
  note_steps();
  note_histories();
}

void Recording::State::note_steps() {
  if (steps.empty()) return;
  first_uses.assign(origins.size(), tape.size());
  for (size_t i = tape.size(); i-- > 0;) {
    const TapeNode& node = tape.nodes()[i];
    for (uint32_t k = 0; k < node.inputs + node.outputs; ++k)
      if (const int memory = tape.operand(node.first + k).memory; memory >= 0)
        first_uses[static_cast<size_t>(memory)] = i;
    if (node.op->random && is_in_step(i)) refuse("an optimizer's step draws random numbers");
  }
  std::vector<bool> merged(origins.size(), false);
  for (const auto& [from, to] : plan->rewrite.merges)
    merged[static_cast<size_t>(from)] = merged[static_cast<size_t>(to)] = true;
  constexpr std::string_view kMerged = "what an optimizer reads was merged with an equal result";
  for (size_t i = 0; i < tape.size(); ++i) {
    const TapeNode& node = tape.nodes()[i];
    if (!is_in_step(i)) continue;
    for (uint32_t k = 0; k < node.inputs + node.outputs; ++k)
      if (const int memory = tape.operand(node.first + k).memory; memory >= 0)
        if (merged[static_cast<size_t>(memory)]) refuse(kMerged);
  }
  for (size_t k = 0; k < steps.size(); ++k)
    for (const Seen& gradient : seen[k]) {
      RecordedTensor& recorded = steps[k].gradients.emplace_back(gradient.tensor);
      if (!gradient.storage) continue;
      const auto found = std::find(storages.begin(), storages.end(), gradient.storage);
      recorded.memory = static_cast<int>(found - storages.begin());
      if (found == storages.end() || merged[static_cast<size_t>(recorded.memory)]) refuse(kMerged);
    }
}

void Recording::State::note_histories() {
  for (const Storage* storage : histories) {
    const auto found = std::find(storages.begin(), storages.end(), storage);
    if (found == storages.end() ||
        origins[static_cast<size_t>(found - storages.begin())].kind != Origin::Kind::made)
      refuse("an op that is recorded for backward writes into a tensor from outside");
  }
}

// Gradients that the body leaves. Nothing is forgotten: a leaf that was made in the body is gone.
void Recording::State::note_leaves() {
  for (Met& known : met) {
    RecordedLeaf& leaf = known.leaf;
    const Tensor after = leaf.node->grad();
    if (after.defined() && after.requires_grad())
      refuse("a gradient that the body leaves belongs to a graph (create_graph)");
    leaf.before = recorded(known.before);
    leaf.keeps =
        leaf.reads && after.defined() && known.before.defined() && after.is_same(known.before);
    leaf.after = recorded(after);
    for (size_t i = 0; i < arguments.size() && leaf.node; ++i) {
      const AutogradMeta* meta =
          arguments[i].defined() ? autograd_meta_or_null(arguments[i]) : nullptr;
      if (!meta || meta->accumulator != leaf.node) continue;
      leaf.argument = i;
      leaf.node.reset();
    }
    leaves.push_back(leaf);
  }
  met.clear();
}

// The numbers that random ops drew count from where the run began.
void Recording::State::note_random() {
  const PhiloxState after = current_generator().state();
  counters = after.offset - before.offset;
  if (after.seed != before.seed || after.offset < before.offset)
    refuse("the function seeds a random generator");
  for (size_t i = 0; i < tape.size(); ++i) {
    const TapeNode& node = tape.nodes()[i];
    if (!node.op->random) continue;
    const PhiloxState drawn = stream_of(*node.op, node.attrs.get());
    const bool ours =
        drawn.seed == before.seed && drawn.offset >= before.offset && drawn.offset < after.offset;
    if (ours)
      random_nodes.emplace_back(i, drawn.offset - before.offset);
    else if (drawn.seed != 0 || drawn.offset != 0)  // 0 and 0: an op that may draw, and does not
      refuse(concat(node.op->name, " draws from a generator of its own"));
  }
}

void Recording::State::let_go(std::vector<IntrusivePtr<Storage>>& its_storages) const {
  std::vector<bool> kept(origins.size(), false);
  const auto keep = [&](const RecordedTensor& tensor) {
    if (tensor.memory >= 0) kept[static_cast<size_t>(tensor.memory)] = true;
  };
  for (const RecordedTensor& result : results) keep(result);
  for (const RecordedLeaf& leaf : leaves) keep(leaf.after);
  for (size_t i = 0; i < origins.size(); ++i)
    if (origins[i].kind == Origin::Kind::made && !kept[i]) its_storages[i].reset();
}

// ---- what the recorder tells
// ---------------------------------------------------------------------

// Casts that autocast keeps were made outside, and a replay would not renew them: the body meets
// none.
Recording::Recording(const ReplayCall& call)
    : state_(std::make_shared<State>(call)),
      autocast_scopes_(std::exchange(thread_state.autocast_scopes, 0)) {}

Recording::~Recording() { thread_state.autocast_scopes = autocast_scopes_; }

void Recording::refuse(std::string_view reason) {
  if (!state_->finished) state_->refuse(reason);
}

void Recording::meet_leaf(AccumulateGrad& leaf, bool reads) { state_->meet(leaf, reads); }

void Recording::meet_history(const Tensor& target) {
  if (!state_->finished) state_->histories.push_back(target.impl().storage.get());
}

bool Recording::is_in_step() const { return state_->in_step; }

void Recording::begin_step(const HostStep& step, size_t nodes) {
  State& state = *state_;
  state.in_step = true;
  state.steps.push_back({step, nodes, nodes, step.settings(), {}});
  std::vector<State::Seen>& seen = state.seen.emplace_back();
  for (const State::Met& known : state.met) {
    const Tensor gradient = known.leaf.node->grad();
    State::Seen& one = seen.emplace_back();
    if (!gradient.defined() || !state.is_array(gradient)) continue;
    one.storage = gradient.impl().storage.get();
    one.tensor = layout_of(gradient);
  }
}

void Recording::end_step(size_t nodes) {
  state_->steps.back().last = nodes;
  state_->in_step = false;
}

void Recording::take(const Tape& tape, std::shared_ptr<const Plan> plan) {
  if (!state_->finished) refuse("the body's kernels had to run before it was at its end");
  if (state_->refusal.empty()) state_->take(tape, std::move(plan));
}

void Recording::finish(std::span<const Tensor> results, uint64_t form) {
  State& state = *state_;
  state.form = form;
  for (const Tensor& result : results)
    if (result.defined() && result.requires_grad())
      refuse("a result requires a gradient; detach it, or call the function under no_grad");
  if (!thread_state.deferral) refuse("TENSORA_JIT=0");
  for (const RecordedStep& step : state.steps)
    if (step.step.settings() != step.settings)
      refuse("the body changes the settings of an optimizer; change them outside");
  // Leaves that the body made are gone, but for the recording; so are their gradients.
  for (size_t i = state.met.size(); i-- > 0;) {
    if (state.met[i].leaf.node->use_count() != 1) continue;
    state.met.erase(state.met.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& seen : state.seen)
      if (i < seen.size()) seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(i));
  }
  state.finished = true;
  if (!thread_state.deferral) return;
  // The tape is taken when the scope flushes, with the numbers of its memories; results may refer
  // to more. Until then they are held by the caller.
  thread_state.deferral->flush();
  if (!state.refusal.empty()) {
    state.met.clear();
    return;
  }
  for (const Tensor& result : results) state.results.push_back(state.recorded(result));
  state.note_leaves();
  state.note_random();
}

}  // namespace tensora::jit
