#include "tensora/jit/fuse.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/thread_state.h"

namespace tensora::jit {

struct Fused::Compiled {
  Graph graph;
  std::vector<Step> steps;
  std::vector<std::unique_ptr<FusedKernel>> kernels;  // one per step; null for single nodes
};

struct Fused::State {
  Function function;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Compiled>> versions;
};

namespace {

std::string signature(std::span<const Tensor> inputs) {
  std::string text;
  for (const Tensor& input : inputs)
    text += concat(input.dtype(), input.sizes(), input.device(), ";");
  return text;
}

}  // namespace

Fused::Fused(Function function) : state_(std::make_shared<State>()) {
  state_->function = std::move(function);
}

std::shared_ptr<Fused::Compiled> Fused::compiled(std::span<const Tensor> inputs) const {
  const std::string key = signature(inputs);
  std::lock_guard lock(state_->mutex);
  std::shared_ptr<Compiled>& found = state_->versions[key];
  if (found) return found;
  auto fresh = std::make_shared<Compiled>();
  fresh->graph = trace(state_->function, inputs);
  fresh->steps = fuse_pointwise(fresh->graph);
  for (const Step& step : fresh->steps)
    fresh->kernels.push_back(step.program ? emit(*step.program) : nullptr);
  return found = std::move(fresh);
}

std::vector<Tensor> Fused::run(std::span<const Tensor> inputs) const {
  if (thread_state.grad_enabled)
    for (const Tensor& input : inputs)
      check(!input.requires_grad(),
            "jit: gradients through a fused function are not supported; use no_grad");
  const std::shared_ptr<Compiled> code = compiled(inputs);
  const no_grad silent;
  std::vector<Tensor> values(code->graph.values.size());
  const auto at = [&](int id) -> Tensor& { return values[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < values.size(); ++i) values[i] = code->graph.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i) at(code->graph.inputs[i]) = inputs[i];
  static const Tensor undefined;
  for (size_t s = 0; s < code->steps.size(); ++s) {
    const Step& step = code->steps[s];
    if (!step.program) {
      const GraphNode& node = code->graph.nodes[static_cast<size_t>(step.node)];
      SmallVector<Arg, 4> args;
      for (int id : node.inputs) args.emplace_back(id < 0 ? undefined : at(id));
      Tensors results = detail::apply_all(*node.op, {args.data(), args.size()}, node.attrs.get());
      for (size_t i = 0; i < results.size(); ++i) at(node.outputs[i]) = std::move(results[i]);
      continue;
    }
    SmallVector<const View*, 8> in, out;
    for (int id : step.inputs) in.push_back(&at(id).view_of_data());
    for (int id : step.outputs) {
      const Value& value = code->graph.values[static_cast<size_t>(id)];
      at(id) = make_tensor(value.sizes, contiguous_strides(value.sizes), value.dtype, value.device);
      out.push_back(&at(id).view_of_data());
    }
    code->kernels[s]->run({in.data(), in.size()}, {out.data(), out.size()});
  }
  std::vector<Tensor> results;
  for (int id : code->graph.outputs) results.push_back(at(id));
  return results;
}

std::string Fused::describe(std::span<const Tensor> inputs) const {
  const std::shared_ptr<Compiled> code = compiled(inputs);
  std::string text = to_string(code->graph);
  for (const Step& step : code->steps) {
    if (!step.program) continue;
    text += "fused:";
    for (const Program::Instruction& instruction : step.program->instructions)
      text += concat(" ", instruction.op->name);
    text += "\n";
  }
  return text;
}

int Fused::kernel_count(std::span<const Tensor> inputs) const {
  return static_cast<int>(compiled(inputs)->steps.size());
}

Fused fuse(std::function<Tensor(std::span<const Tensor>)> function,
           std::span<const Tensor> example_inputs) {
  Fused fused([function = std::move(function)](std::span<const Tensor> inputs) {
    return std::vector<Tensor>{function(inputs)};
  });
  const no_grad silent;
  fused.kernel_count(example_inputs);
  return fused;
}

}  // namespace tensora::jit
