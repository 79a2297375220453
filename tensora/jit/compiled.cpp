#include "tensora/jit/compiled.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/core/random.h"
#include "tensora/dispatch/autocast.h"

namespace tensora::jit {
namespace {

using Kind = GraphNode::Kind;

// Fused functions run under no_grad, and the history of a view taken there is never renewed.
class UnrecordedView final : public ViewStep, public Pooled {
 public:
  Tensor apply_to(const Tensor&) const override {
    fail_internal("jit: a view that was taken without recording has no history to renew");
  }
};

Tensor part_of(const Tensor& tensor, const Part& part) {
  const int64_t start = bytes_of(tensor.dtype(), tensor.storage_offset());
  const DTypeInfo& info = dtype_info(part.dtype);
  return make_view(tensor.impl().storage, part.sizes, part.strides,
                   (start + part.offset_bytes) / info.block_bytes * info.block_numbers, part.dtype);
}

Tensor make_like(const Value& value) {
  Tensor result = make_tensor(value.sizes, value.strides, value.dtype, value.device);
  result.impl().inference = thread_state.inference_mode;
  return result;
}

// The attributes of a random op, with its offset relative to the start of this run.
std::vector<std::pair<std::string, AttrValue>> drawn_anew(const GraphNode& node,
                                                          PhiloxState stream) {
  std::vector<std::pair<std::string, AttrValue>> attrs;
  for (const auto& [name, value] : node.op->list_attrs(node.attrs.get())) {
    AttrValue& now = attrs.emplace_back(name, value).second;
    if (name == "seed") now = to_attr_value(uint64_t{stream.seed});
    if (name == "offset")
      now = to_attr_value(static_cast<uint64_t>(value.integer) + uint64_t{stream.offset});
  }
  return attrs;
}

}  // namespace

Compiled::Compiled(Graph graph) : graph_(std::move(graph)), steps_(fuse_pointwise(graph_)) {
  for (const Step& step : steps_) kernels_.push_back(step.program ? emit(*step.program) : nullptr);
  for (const GraphNode& node : graph_.nodes) updates_ |= node.kind == Kind::update;
  // Going backwards from the last step, the first mention of a value is its last use.
  std::vector<bool> needed(graph_.values.size(), false);
  for (int id : graph_.outputs) needed[static_cast<size_t>(id)] = true;
  last_uses_.resize(steps_.size());
  for (size_t s = steps_.size(); s-- > 0;) {
    const bool fused = steps_[s].program.has_value();
    const GraphNode* node = fused ? nullptr : &graph_.nodes[static_cast<size_t>(steps_[s].node)];
    for (const std::vector<int>* ids :
         {fused ? &steps_[s].outputs : &node->outputs, fused ? &steps_[s].inputs : &node->inputs})
      for (int id : *ids) {
        if (id < 0 || needed[static_cast<size_t>(id)]) continue;
        needed[static_cast<size_t>(id)] = true;
        last_uses_[s].push_back(id);
      }
  }
}

// The trace assumed that inputs and captured tensors do not share memory.
void Compiled::check_memory(std::span<const Tensor> inputs) const {
  std::vector<bool> is_updated(graph_.values.size(), false);
  for (const GraphNode& node : graph_.nodes)
    if (node.kind == Kind::update) is_updated[static_cast<size_t>(node.inputs[0])] = true;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      const Tensor& constant = graph_.values[id].constant;
      if (!constant.defined() || !constant.shares_storage(inputs[i])) continue;
      check(!is_updated[id] && !is_updated[static_cast<size_t>(graph_.inputs[i])], "jit: input ", i,
            " shares its memory with a tensor that the function captured, and the function writes "
            "there; pass the tensor as an input, or clone it");
    }
}

Tensor Compiled::written(const GraphNode& node, Tensor root, const Tensor& source) const {
  const Value& value = graph_.value(node.outputs[0]);
  const Part& part = node.part;
  const bool whole = part.offset_bytes == 0 && part.dtype == value.dtype &&
                     part.sizes == value.sizes && part.strides == value.strides;
  // Memory with no other owner is written in place.
  const bool owned = root.impl().use_count() == 1 && root.impl().storage->use_count() == 1;
  Tensor result = owned ? std::move(root) : make_like(value);
  if (!owned && !whole) engine_ops().copy_(result, root);
  engine_ops().copy_(whole ? result : part_of(result, part), source);
  return result;
}

void Compiled::run_node(size_t step, std::vector<Tensor>& values, PhiloxState stream) const {
  const GraphNode& node = graph_.nodes[static_cast<size_t>(steps_[step].node)];
  const std::vector<int>& dying = last_uses_[step];
  static const Tensor undefined;
  const auto at = [&](int id) -> Tensor& { return values[static_cast<size_t>(id)]; };
  switch (node.kind) {
    case Kind::op: {
      SmallVector<Arg, 4> args;
      for (int id : node.inputs) args.emplace_back(id < 0 ? undefined : at(id));
      Tensors results;
      const auto apply_with = [&](const void* attrs) {
        results = detail::apply_all(*node.op, {args.data(), args.size()}, attrs);
      };
      if (node.random)
        node.op->with_attrs(*node.op, drawn_anew(node, stream), apply_with);
      else
        apply_with(node.attrs.get());
      for (size_t i = 0; i < results.size(); ++i) {
        const Value& value = graph_.value(node.outputs[i]);
        // On a device that runs the op's definition the result may have other strides.
        if (results[i].strides() != value.strides) {
          const Tensor laid_out = make_like(value);
          engine_ops().copy_(laid_out, results[i]);
          results[i] = laid_out;
        }
        at(node.outputs[i]) = std::move(results[i]);
      }
      return;
    }
    case Kind::view: {
      const Tensor& source = at(node.inputs[0]);
      Tensor view = part_of(source, node.part);
      if (source.is_inference())
        view.impl().inference = true;
      else
        track_view(view, source, IntrusivePtr<UnrecordedView>::adopt(new UnrecordedView));
      at(node.outputs[0]) = std::move(view);
      return;
    }
    case Kind::write: {
      Tensor& root = at(node.inputs[0]);
      const bool dies = std::find(dying.begin(), dying.end(), node.inputs[0]) != dying.end();
      at(node.outputs[0]) = written(node, dies ? std::move(root) : root, at(node.inputs[1]));
      return;
    }
    case Kind::update:
      engine_ops().copy_(at(node.inputs[0]), at(node.inputs[1]));
      at(node.outputs[0]) = at(node.inputs[0]);
      return;
  }
}

void Compiled::run_kernel(size_t step, std::vector<Tensor>& values) const {
  SmallVector<const View*, 8> in, out;
  for (int id : steps_[step].inputs) in.push_back(&values[static_cast<size_t>(id)].view_of_data());
  for (int id : steps_[step].outputs) {
    Tensor& result = values[static_cast<size_t>(id)];
    result = make_like(graph_.value(id));
    out.push_back(&result.view_of_data());
  }
  kernels_[step]->run({in.data(), in.size()}, {out.data(), out.size()});
}

std::vector<Tensor> Compiled::run(std::span<const Tensor> inputs) const {
  if (updates_) check_memory(inputs);
  const no_grad silent;
  const autocast as_traced({.enabled = false});  // the casts are in the graph
  const PhiloxState stream = graph_.random_counters == 0
                                 ? PhiloxState{}
                                 : current_generator().reserve(graph_.random_counters);
  std::vector<Tensor> values(graph_.values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = graph_.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i)
    values[static_cast<size_t>(graph_.inputs[i])] = inputs[i];
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (steps_[s].program)
      run_kernel(s, values);
    else
      run_node(s, values, stream);
    for (int id : last_uses_[s]) values[static_cast<size_t>(id)] = {};
  }
  std::vector<Tensor> results;
  for (int id : graph_.outputs) results.push_back(values[static_cast<size_t>(id)]);
  return results;
}

std::string Compiled::describe() const {
  std::string text = to_string(graph_);
  for (const Step& step : steps_) {
    if (!step.program) continue;
    text += "fused:";
    for (const Program::Instruction& instruction : step.program->instructions)
      text += concat(" ", instruction.op->name);
    text += "\n";
  }
  return text;
}

int Compiled::kernel_count() const {
  return static_cast<int>(std::count_if(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.program || graph_.nodes[static_cast<size_t>(step.node)].kind != Kind::view;
  }));
}

}  // namespace tensora::jit
