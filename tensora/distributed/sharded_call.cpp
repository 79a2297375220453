#include "tensora/distributed/sharded_call.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <mutex>
#include <set>
#include <unordered_map>

#include "tensora/autograd/history.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/interceptor.h"
#include "tensora/distributed/shard_plan.h"
#include "tensora/ops.h"

// Note [Stand-ins]
// In call_sharded a sharded tensor is represented by a stand-in: a tensor of the whole one's shape
// and device without memory. The interceptor knows which ShardedTensor it stands for, and runs each
// op on the local parts; these record the history, so the backward of a local op is local too, and
// that of a redistribution is the opposite redistribution. A tensor that is replicated on all ranks
// needs no stand-in: it is the local tensor itself. Ops among such tensors run as they are. How a
// call runs is found once (Note [Plans]).

namespace tensora::distributed {
namespace {

void warn_of_gather(std::string_view op) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> known;
  const std::lock_guard lock(mutex);
  if (known.emplace(op).second)
    std::cerr << concat("tensora: call_sharded: no rule divides '", op,
                        "' among ranks for such inputs; they are gathered\n");
}

/// The history of a stand-in. The local parts have one that can be run; this one leads to what the
/// stand-in was computed from, so that a backward inside of the function is noticed.
class StandInNode final : public Node {
 public:
  explicit StandInNode(Args sources) {
    for (const Arg& source : sources)
      if (source->defined() && source->requires_grad()) add_edge(gradient_edge(*source));
  }
  std::string_view name() const override { return "ShardedTensor"; }
  Tensors backward(Tensors) override {
    throw NotImplementedError(
        "call_sharded: gradients were asked for inside of the function; call backward on the "
        "results");
  }
};

// A whole tensor with the strides of its stand-in. Only where that is impossible, and nothing
// addresses the storage, with others.
Tensor laid_out(const Tensor& whole, const Tensor& stand_in, bool addresses_storage) {
  if (whole.strides() == stand_in.strides()) return whole;
  const bool dense = is_dense(stand_in.sizes(), stand_in.strides());
  check_as<NotImplementedError>(dense || !addresses_storage, "a sharded tensor of shape ",
                                stand_in.sizes(), " and strides ", stand_in.strides(),
                                " has no storage of that layout; use contiguous");
  if (!dense) return whole;
  const Tensor result = empty_strided(whole.sizes(), stand_in.strides(),
                                      {.dtype = whole.dtype(), .device = whole.device()});
  result.copy_(whole);
  return result;
}

class ShardedRun final : public Interceptor {
 public:
  ShardedRun(DeviceMesh mesh, const ShardedCallOptions& options)
      : mesh_(std::move(mesh)), options_(options), plans_(ShardPlans::of(mesh_)), use_(plans_) {}
  ~ShardedRun() override {
    for (auto& [impl, known] : known_)
      if (!known.has_data) known.stand_in.impl().view.device = DeviceType::meta;
  }

  Tensor add_input(const ShardedTensor& input) {
    if (is_whole(input)) return input.to_local();
    const Tensor stand_in =
        keep(make_tensor(input.sizes(), input.to_local().dtype(), DeviceType::meta), input, {});
    known_.at(&stand_in.impl()).is_input = true;
    return stand_in;
  }
  ShardedTensor value_of(const Tensor& tensor) {
    const Known* const known = find(tensor);
    return known ? value_of(*known)
                 : ShardedTensor(tensor, mesh_, all_replicated(), tensor.sizes());
  }

  Tensors intercept(const Call& call) override;
  void before_read(const Tensor& tensor) override;

 private:
  struct Known {
    Tensor stand_in;  // keeps the address from being used again
    Tensor part;      // this rank's
    const OperandLayout* layout;
    NodePtr history = {};
    bool is_input = false, has_data = false;
  };

  Placements all_replicated() const { return Placements(static_cast<size_t>(mesh_.dims())); }
  static bool is_whole(const ShardedTensor& tensor) {
    return std::ranges::all_of(tensor.placements(), &Placement::is_replicate);
  }
  Known* find(const Tensor& tensor);
  using FoundInputs = SmallVector<Known*, 4>;
  ShardedTensor value_of(const Known& known) const {
    return {known.part, mesh_, known.layout->placements, known.layout->sizes};
  }
  const OperandLayout* layout_of(const Tensor& tensor, const Tensor& part = {},
                                 const Placements& placements = {});
  Tensor keep(Tensor stand_in, const ShardedTensor& value, Args sources);
  Tensor keep(Tensor stand_in, const Tensor& part, const OperandLayout* layout, Args sources);
  void forget_unused();
  Tensor whole_of(const Tensor& tensor, bool addresses_storage);

  const OperandLayout* layout_of_whole(const Tensor& tensor);
  ShardPlanKey key_of(const Call& call, const FoundInputs& found);
  Tensors run_definition(const Call& call);
  Tensors run_gathered(const Call& call);
  Tensors run_divided(const Call& call, const ShardPlan& plan, const FoundInputs& found);
  Tensor prepared(const Tensor& input, const ShardPlan& plan, size_t i);
  Tensors run_inplace(const Call& call);
  void require_writable(const Call& call, const Tensor& target);
  Tensor stand_in_for(const Call& call, const OutputSpec& spec, DType dtype);
  Tensors represent_all(const Call& call, const ShardPlan& plan, const Tensors& results);

  const DeviceMesh mesh_;
  const ShardedCallOptions& options_;
  ShardPlans& plans_;
  const ShardPlans::Use use_;
  std::unordered_map<const TensorImpl*, Known> known_;
  size_t forget_at_ = 256;
  // The layouts of whole tensors by their address, where another tensor may be by now.
  std::array<const OperandLayout*, 64> whole_layouts_ = {};
};

ShardedRun::Known* ShardedRun::find(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const auto found = known_.find(&tensor.impl());
  if (found == known_.end()) return nullptr;
  Known& known = found->second;
  const AutogradMeta* const meta = autograd_meta_or_null(tensor);
  const bool ours = !meta || (!meta->accumulator && meta->grad_fn.get() == known.history.get());
  check_as<NotImplementedError>(
      ours && tensor.requires_grad() == known.part.requires_grad(),
      "call_sharded: a sharded tensor of shape ", tensor.sizes(),
      " has got a gradient of its own (by a Function, or requires_grad_), which sharded tensors "
      "do not support inside of the function");
  return &known;
}

// Stand-ins that nobody else has are not needed any more.
void ShardedRun::forget_unused() {
  std::erase_if(known_, [](const auto& entry) {
    return !entry.second.is_input && entry.second.stand_in.impl().use_count() == 1;
  });
  forget_at_ = std::max<size_t>(256, 2 * known_.size());
}

const OperandLayout* ShardedRun::layout_of(const Tensor& tensor, const Tensor& part,
                                           const Placements& placements) {
  if (!tensor.defined()) return plans_.intern({});
  OperandLayout layout{.defined = true,
                       .wrapped_number = tensor.impl().wrapped_number,
                       .dtype = tensor.dtype(),
                       .device = tensor.device(),
                       .sizes = tensor.sizes(),
                       .strides = tensor.strides(),
                       .offset = tensor.storage_offset(),
                       .placements = placements};
  if (part.defined()) {
    layout.part_sizes = part.sizes();
    layout.part_strides = part.strides();
  }
  return plans_.intern(std::move(layout));
}

Tensor ShardedRun::keep(Tensor stand_in, const ShardedTensor& value, Args sources) {
  const Tensor part = value.to_local();
  stand_in.impl().view.device = part.device();
  const OperandLayout* const layout = layout_of(stand_in, part, value.placements());
  return keep(std::move(stand_in), part, layout, sources);
}

Tensor ShardedRun::keep(Tensor stand_in, const Tensor& part, const OperandLayout* layout,
                        Args sources) {
  if (known_.size() >= forget_at_) forget_unused();
  stand_in.impl().view.device = part.device();
  if (AutogradMeta* const meta = autograd_meta_or_null(stand_in)) meta->grad_fn = nullptr;
  stand_in.impl().requires_grad = false;
  NodePtr history;
  if (part.requires_grad()) {
    history = NodePtr::adopt(new StandInNode(sources));
    set_history(stand_in, history, 0);
  }
  known_.insert_or_assign(
      &stand_in.impl(),
      Known{.stand_in = stand_in, .part = part, .layout = layout, .history = std::move(history)});
  return stand_in;
}

// All of a tensor.
Tensor ShardedRun::whole_of(const Tensor& tensor, bool addresses_storage) {
  const Known* const known = find(tensor);
  return known ? laid_out(value_of(*known).full_tensor(), tensor, addresses_storage) : tensor;
}

// The host reads an element: the stand-in gets the values of the whole tensor.
void ShardedRun::before_read(const Tensor& tensor) {
  Known* const known = find(tensor);
  if (!known || known->has_data) return;
  const no_grad silent;
  const Tensor whole = whole_of(tensor, false).detach();
  TensorImpl& impl = tensor.impl();
  impl.view = whole.impl().view;
  impl.storage = whole.impl().storage;
  impl.offset = whole.impl().offset;
  known->has_data = true;
}

Tensors ShardedRun::run_definition(const Call& call) {
  const InterceptorScope again(*this);
  return call.op.reference(call.op, call.inputs, call.attrs);
}

Tensors ShardedRun::run_gathered(const Call& call) {
  check_as<NotImplementedError>(!options_.strict, call.op.name,
                                ": there is no rule for sharded tensors of these shapes, and the "
                                "options are strict");
  check_as<NotImplementedError>(!writes_inputs(call.op), call.op.name,
                                ": writes into its inputs, which cannot be sharded tensors");
  (options_.on_gather ? options_.on_gather : warn_of_gather)(call.op.name);
  std::vector<Tensor> whole;
  for (const Arg& input : call.inputs)
    whole.push_back(input->defined() ? whole_of(*input, call.op.view) : Tensor());
  const SmallVector<Arg, 8> args = args_of(whole);
  const Tensors results = proceed({call.op, args, call.attrs});
  if (!call.op.view) return results;
  Infer infer(call.op.name, call.inputs, device_of(call));
  call.op.infer(call.op, infer, call.attrs);
  Tensors views;
  for (size_t i = 0; i < results.size(); ++i) {
    const OutputSpec& spec = infer.outputs[i];
    const ShardedTensor value(results[i], mesh_, all_replicated(), spec.sizes);
    views.push_back(keep(stand_in_for(call, spec, results[i].dtype()), value, call.inputs));
  }
  return views;
}

// The stand-ins of views are views of stand-ins, whether or not they are whole: a write into one
// has to be refused.
Tensor ShardedRun::stand_in_for(const Call& call, const OutputSpec& spec, DType dtype) {
  if (spec.row_major && !call.op.view) return make_tensor(spec.sizes, dtype, DeviceType::meta);
  const Strides strides = spec.row_major ? contiguous_strides(spec.sizes) : spec.strides;
  if (!call.op.view) return make_tensor(spec.sizes, strides, dtype, DeviceType::meta);
  return make_view(call.inputs[0]->impl().storage, spec.sizes, strides, spec.offset, dtype);
}

Tensors ShardedRun::represent_all(const Call& call, const ShardPlan& plan, const Tensors& results) {
  Tensors outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& part = results[i];
    ensure(part.sizes() == plan.part_sizes[i], call.op.name, ": a rank's part has shape ",
           part.sizes(), " instead of ", plan.part_sizes[i]);
    if (!call.op.view && plan.is_whole[i]) {
      outputs.push_back(part);
      continue;
    }
    Tensor stand_in = stand_in_for(call, plan.outputs[i], part.dtype());
    stand_in.impl().view.device = part.device();
    const OperandLayout*& last = plan.last_layouts[i];
    if (!last || last->part_strides != part.strides() || !last->describes(stand_in.impl()) ||
        last->device != part.device())
      last = layout_of(stand_in, part, plan.choice.outputs[i]);
    outputs.push_back(keep(std::move(stand_in), part, last, call.inputs));
  }
  return outputs;
}

// What the op gets of input number `i`, where that is not what this rank has.
Tensor ShardedRun::prepared(const Tensor& input, const ShardPlan& plan, size_t i) {
  const ShardedTensor value = value_of(input).redistribute(plan.choice.inputs[i]);
  const Tensor part = value.to_local(plan.choice.gradients[i]);
  if (part.sizes() == input.sizes()) return laid_out(part, input, false);
  return input.is_contiguous() ? part.contiguous() : part;
}

Tensors ShardedRun::run_divided(const Call& call, const ShardPlan& plan, const FoundInputs& found) {
  SmallVector<Tensor, 4> parts;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = *call.inputs[i];
    if (plan.as_is[i])
      parts.push_back(found[i] ? found[i]->part : input);
    else
      parts.push_back(prepared(input, plan, i));
  }
  if (plan.reshapes) {
    Tensors results;
    results.push_back(reshape(parts[0], plan.part_sizes[0]));
    return represent_all(call, plan, results);
  }
  const SmallVector<Arg, 8> args = args_of({parts.data(), parts.size()});
  return represent_all(call, plan,
                       proceed({call.op, args, plan.attrs ? plan.attrs->get() : call.attrs}));
}

void ShardedRun::require_writable(const Call& call, const Tensor& target) {
  const Known* const known = find(target);
  if (!known) return;
  check_as<NotImplementedError>(!known->is_input, call.op.name,
                                "_: an input of call_sharded cannot be written to in place");
  forget_unused();  // views among them
  check_as<NotImplementedError>(
      target.impl().storage.get()->use_count() == 1, call.op.name,
      "_: a sharded tensor that has views, or is one, cannot be written to in place");
}

// The functional form, whose results become the values of the tensors that are written.
Tensors ShardedRun::run_inplace(const Call& call) {
  Tensors results;
  {
    const InterceptorScope again(*this);
    results = detail::apply_all(call.op, call.inputs, call.attrs);
    check(results.size() <= call.inputs.size(), call.op.name, "_: ", results.size(),
          " results do not fit in place into ", call.inputs.size(), " inputs");
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor& target = *call.inputs[i];
      require_writable(call, target);
      check(results[i].sizes() == target.sizes(), call.op.name, "_: the result of shape ",
            results[i].sizes(), " does not fit in place into shape ", target.sizes());
      const bool fits =
          dtype_info(results[i].dtype()).category <= dtype_info(target.dtype()).category;
      check(fits, call.op.name, "_: a result of dtype ", results[i].dtype(),
            " cannot be stored in place as ", target.dtype());
      results[i] = results[i].to(target.dtype());
    }
  }
  Tensors written;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& target = *call.inputs[i];
    written.push_back(target);
    if (find(target))
      keep(target, value_of(results[i]), args_of({&results[i], 1}));
    else
      target.copy_(whole_of(results[i], false));
  }
  return written;
}

const OperandLayout* ShardedRun::layout_of_whole(const Tensor& tensor) {
  if (!tensor.defined()) return layout_of(tensor);
  const size_t hash = reinterpret_cast<uintptr_t>(&tensor.impl()) / alignof(TensorImpl);
  const OperandLayout*& last = whole_layouts_[(hash ^ hash / 64) % whole_layouts_.size()];
  const bool same = last && last->describes(tensor.impl()) && last->device == tensor.device() &&
                    last->wrapped_number == tensor.impl().wrapped_number;
  if (!same) last = layout_of(tensor);
  return last;
}

ShardPlanKey ShardedRun::key_of(const Call& call, const FoundInputs& found) {
  ShardPlanKey key{.op = &call.op,
                   .words = call.op.attr_words(call.attrs),
                   .records = false,
                   .default_dtype = default_dtype()};
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor& input = *call.inputs[i];
    Known* const known = found[i];
    if (known && !known->layout->describes(input.impl()))  // the host has read it, say
      known->layout = layout_of(input, known->part, known->layout->placements);
    key.layouts.push_back(known ? known->layout : layout_of_whole(input));
    key.records |= input.defined() && input.requires_grad();
  }
  key.records &= is_grad_enabled();
  return key;
}

Tensors ShardedRun::intercept(const Call& call) {
  if (!call.op.infer && !call.inplace) return run_definition(call);
  FoundInputs found;
  bool any = false;
  for (const Arg& input : call.inputs) {
    found.push_back(find(*input));
    any |= found.back() != nullptr;
  }
  if (!any) return proceed(call);
  if (call.inplace) return run_inplace(call);
  if (call.op.random) return run_gathered(call);
  ShardPlanKey key = key_of(call, found);
  const ShardPlan& plan = plans_.plan(key, call, mesh_);
  if (plan.way == ShardPlan::Way::gathered) return run_gathered(call);
  return plan.way == ShardPlan::Way::by_definition ? run_definition(call)
                                                   : run_divided(call, plan, found);
}

bool same_mesh(const DeviceMesh& a, const DeviceMesh& b) {
  bool same = a.dims() == b.dims();
  for (int i = 0; same && i < a.dims(); ++i) same = a.shared_group(i) == b.shared_group(i);
  return same;
}

}  // namespace

ShardedTensors call_sharded(const std::function<TensorList(std::span<const Tensor>)>& function,
                            const ShardedTensors& inputs, const ShardedCallOptions& options) {
  check_as<ValueError>(!inputs.empty(), "call_sharded: expected at least one sharded input");
  for (const ShardedTensor& input : inputs)
    check_as<ValueError>(same_mesh(input.mesh(), inputs[0].mesh()),
                         "call_sharded: the inputs are on different meshes");
  ShardedRun run(inputs[0].mesh(), options);
  std::vector<Tensor> stand_ins;
  for (const ShardedTensor& input : inputs) stand_ins.push_back(run.add_input(input));
  TensorList results;
  {
    const InterceptorScope scope(run);
    results = function(stand_ins);
  }
  ShardedTensors values;
  for (const Tensor& result : results) {
    check_as<ValueError>(result.defined(), "call_sharded: result ", values.size(),
                         " of the function is undefined");
    values.push_back(run.value_of(result));
  }
  return values;
}

}  // namespace tensora::distributed
