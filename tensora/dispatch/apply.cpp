#include <atomic>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/base/error_kinds.h"
#include "tensora/base/fork.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/deferral.h"
#include "tensora/dispatch/divided.h"
#include "tensora/dispatch/inplace_checks.h"
#include "tensora/dispatch/interceptor.h"
#include "tensora/dispatch/op_node.h"
#include "tensora/dispatch/profiler.h"
#include "tensora/dispatch/run_kernel.h"

// Note [The one door]
// Every op, eager or traced, in any language, passes here, in this order:
//   autocast → interceptors → common device → kernel, or the reference → infer → memory → run →
//   history.
// What must hold for all ops (version counters, gradients, profiling, errors that name the op) is
// therefore written once. In-place ops are the same ops with their first input as output memory;
// views are ops whose output is described in input 0's storage and that run nothing.

namespace tensora {

// Generated from the names of the rooms' files.
void register_all_ops(OpRegistry& registry);
void register_cpu_kernels();

constinit std::atomic<DividedTensors*> divided_tensors{nullptr};

namespace {

struct Library {
  OpRegistry ops;
  Library() {
    register_all_ops(ops);
    register_cpu_kernels();
  }
};

std::atomic<bool> library_is_ready{false};

const Library& library() {
  static constinit MadeOnce<Library> instance;
  const Library& made = instance.get();
  library_is_ready.store(true, std::memory_order_release);
  return made;
}

// The first op of the process fills the kernel slots and the engine's hooks.
void require_library() {
  if (!library_is_ready.load(std::memory_order_acquire)) [[unlikely]]
    library();
}

// The device that inputs on several devices agree on; throws when they do not.
[[gnu::noinline]] Device settle_device(const OpBase& op, Args inputs) {
  const Tensor* first = nullptr;
  for (const Arg& input : inputs) {
    if (!input->defined()) continue;
    if (!first) {
      first = &*input;
      continue;
    }
    if (input->device() == first->device() || op.any_device) continue;
    const auto yields = [&](const Tensor& tensor) {
      return op.cpu_scalars && tensor.dim() == 0 && tensor.is_cpu();
    };
    if (yields(*input)) continue;
    check(yields(*first), op.name, ": expected all tensors on one device, got ", first->device(),
          " and ", input->device());
    first = &*input;
  }
  return first->device();
}

[[noreturn, gnu::noinline]] void fail_dtype(const OpBase& op, DType dtype) {
  fail(op.name, ": not supported for ", dtype,
       is_quantized(dtype)           ? "; dequantize it"
       : !dtype_info(dtype).computes ? ", which only stores values; cast it"
                                     : "");
}

// Whether an input is divided; see Note [Divided tensors].
[[gnu::noinline]] bool check_unusual(const OpBase& op, Args inputs) {
  bool divided = false;
  for (const Arg& input : inputs) {
    if (!input->defined()) continue;
    if (!contains(op.accepts, input->dtype())) fail_dtype(op, input->dtype());
    check_as<NotImplementedError>(!is_sparse(*input), op.name,
                                  ": sparse tensors are not supported by this op; convert the "
                                  "tensor with to_dense first");
    if (input->impl().view.data) continue;
    if (is_divided(*input))
      divided = true;
    else
      place(*input);
  }
  return divided;
}

// What the inputs decide about a call.
struct CallInfo {
  Device device;   // where the op runs
  bool recording;  // whether history is recorded: an input requires grad
  bool divided;    // an input is a divided tensor
};

[[noreturn, gnu::cold, gnu::noinline]] void fail_input_count(const OpBase& op, size_t count) {
  const size_t least = op.inputs.least(), most = op.inputs.most();
  const auto expected = op.inputs.ends_in_list() ? concat("at least ", least)
                        : least == most          ? concat(most)
                                                 : concat(least, " to ", most);
  std::string names;
  for (size_t i = 0; i < op.inputs.size(); ++i) names += concat(i == 0 ? "" : ", ", op.inputs[i]);
  fail(op.name, ": expected ", expected, most == 1 ? " input (" : " inputs (", names, "), got ",
       count);
}

[[gnu::cold, gnu::noinline]] void require_optional(const OpBase& op, size_t i) {
  const bool in_list = op.inputs.ends_in_list() && i + 1 >= op.inputs.size();
  check(op.inputs.is_optional(i), op.name, ": input '", op.inputs[i], "'",
        in_list ? concat(" number ", i + 1 - op.inputs.size()) : "", " is undefined");
}

// Whether an input gets its history from the base of which it is a view.
[[gnu::noinline]] bool any_gets_history(Args inputs) {
  bool any = false;
  for (const Arg& input : inputs)
    any |= input->defined() && input->impl().autograd != nullptr && input->requires_grad();
  return any;
}

// Throws when the inputs are too few or too many, on different devices, or of a dtype that the op
// does not accept. The loop calls nothing, so that all of its flags stay in registers.
[[gnu::always_inline]] inline CallInfo inspect_inline(const OpBase& op, Args inputs) {
  const TensorImpl* first = nullptr;
  DTypeSet dtypes = 0;
  bool differ = false, missing = false, require = false, linked = false, divided = false;
  if (inputs.size() < op.inputs.least() || inputs.size() > op.inputs.most()) [[unlikely]]
    fail_input_count(op, inputs.size());
  for (const Arg& input : inputs) {
    if (!input->defined()) [[unlikely]] {
      require_optional(op, static_cast<size_t>(&input - inputs.data()));
      continue;
    }
    const TensorImpl& impl = input->impl();
    if (!first) first = &impl;
    // One comparison of two bytes; operator== makes two, with a branch.
    differ |= __builtin_memcmp(&impl.view.device, &first->view.device, sizeof(Device)) != 0;
    dtypes |= set_of(impl.view.dtype);
    missing |= impl.view.data == nullptr;
    require |= impl.requires_grad;
    linked |= impl.autograd != nullptr && !impl.requires_grad;
  }
  if ((dtypes & ~op.accepts) != 0 || missing) [[unlikely]]
    divided = check_unusual(op, inputs);
  // A view is asked only while recording: one that was taken under no_grad may throw.
  if (linked && thread_state.grad_enabled) [[unlikely]]
    require |= any_gets_history(inputs);
  return {.device = !first    ? Device()
                    : !differ ? first->view.device
                              : settle_device(op, inputs),
          .recording = require && thread_state.grad_enabled,
          .divided = divided};
}

CallInfo inspect_inputs(const OpBase& op, Args inputs) { return inspect_inline(op, inputs); }

// Whether the op's own kernel runs, or its definition in other ops does.
bool runs_reference(const OpBase& op, Device device, bool recording) {
  if (op.view) return false;
  if (!op.has_reference) return false;
  if (!op.infer || (recording && op.gradient == Gradient::by_reference)) return true;
  if (device.is_meta()) return false;
  return !op.has_kernel(device.type);
}

Tensor make_output(const OpBase& op, Args inputs, const OutputSpec& spec, Device device) {
  if (!contains(op.accepts, spec.dtype)) [[unlikely]]
    fail_dtype(op, spec.dtype);
  if (spec.row_major) return make_tensor(spec.sizes, spec.dtype, device);
  if (!op.view) return make_tensor(spec.sizes, spec.strides, spec.dtype, device);
  return make_view(inputs[0]->impl().storage, spec.sizes, spec.strides, spec.offset, spec.dtype);
}

Tensor make_deferred_output(const OpBase& op, const OutputSpec& spec, Device device) {
  if (!contains(op.accepts, spec.dtype)) [[unlikely]]
    fail_dtype(op, spec.dtype);
  return make_deferred(spec.sizes, spec.row_major ? contiguous_strides(spec.sizes) : spec.strides,
                       spec.dtype, device);
}

void attach_history(std::span<const Tensor> outputs, const NodePtr& node) {
  uint32_t index = 0;
  for (const Tensor& output : outputs) {
    if (is_differentiable(output.dtype())) set_history(output, node, index);
    ++index;
  }
}

// A node with what the gradients of the inputs need of them.
IntrusivePtr<OpNode> begin_history(const OpBase& op, Args inputs, const void* attrs,
                                   Device device) {
  auto node = IntrusivePtr<OpNode>::adopt(new OpNode(op, attrs));
  node->take_queue(device);
  node->connect(inputs);
  node->save_inputs(inputs);
  return node;
}

void finish_history(IntrusivePtr<OpNode> node, std::span<const Tensor> outputs) {
  node->set_output_count(static_cast<uint32_t>(outputs.size()));
  node->save_outputs(outputs);
  attach_history(outputs, IntrusivePtr<Node>(std::move(node)));
}

// Runs the op's definition. Its parts record the history, unless the op has a rule of its own.
Tensors run_reference(const OpBase& op, Args inputs, Device device, const void* attrs,
                      bool recording) {
  if (op.infer) {  // for its checks: a mistake reads the same on every device
    Infer infer(op.name, inputs, device);
    op.infer(op, infer, attrs);
  }
  if (!recording || op.gradient == Gradient::by_reference) return op.reference(op, inputs, attrs);
  auto node = begin_history(op, inputs, attrs, device);
  Tensors outputs;
  {
    const no_grad silent;
    outputs = op.reference(op, inputs, attrs);
  }
  finish_history(std::move(node), outputs);
  return outputs;
}

Tensors dispatch(const OpBase& op, Args inputs, const void* attrs, CallInfo info);

// A view op that was applied, so that it can be applied again.
class OpViewStep final : public ViewStep, public Pooled {
 public:
  OpViewStep(const OpBase& op, const void* attrs, size_t output)
      : op_(op), attrs_(op, attrs), output_(output) {}
  Tensor apply_to(const Tensor& input) const override {
    const Arg arg(input);
    const Args inputs(&arg, 1);
    const Tensors parts = dispatch(op_, inputs, attrs_.get(), inspect_inputs(op_, inputs));
    check(output_ < parts.size(), op_.name, ": there is no part ", output_, " any more");
    return parts[output_];
  }

 private:
  const OpBase& op_;
  const OpAttrs attrs_;
  const size_t output_;
};

// A view of an inference tensor is an inference tensor too and is not tracked. A view of any other
// tensor is an ordinary view, even when it is taken under inference_mode.
void track_views(const OpBase& op, const Tensor& source, std::span<const Tensor> views,
                 const void* attrs) {
  for (size_t i = 0; i < views.size(); ++i) {
    if (source.is_inference())
      views[i].impl().inference = true;
    else
      track_view(views[i], source, IntrusivePtr<OpViewStep>::adopt(new OpViewStep(op, attrs, i)));
  }
}

// A call that repeats an earlier one: the deferral knows what it returns. `outputs` are filled.
[[gnu::noinline]] bool is_foreseen(const OpBase& op, Args inputs, const void* attrs, CallInfo info,
                                   Tensors& outputs) {
  if (!thread_state.deferral->foresee(op, without_undefined_end(inputs), attrs, info.device,
                                      outputs))
    return false;
  if (info.recording) finish_history(begin_history(op, inputs, attrs, info.device), outputs);
  if (thread_state.inference_mode)
    for (const Tensor& output : outputs) output.impl().inference = true;
  return true;
}

// See Note [Divided tensors].
[[gnu::noinline]] Tensors dispatch_divided(const OpBase& op, Args inputs, const void* attrs,
                                           CallInfo info) {
  const auto [device, recording, divided] = info;
  if (!op.infer || (recording && op.has_reference && op.gradient == Gradient::by_reference))
    return run_reference(op, inputs, device, attrs, recording);
  Infer infer(op.name, inputs, device);
  op.infer(op, infer, attrs);
  IntrusivePtr<OpNode> node;
  if (recording) node = begin_history(op, inputs, attrs, device);
  Tensors outputs;
  {
    const no_grad silent;
    outputs = divided_tensors.load(std::memory_order_relaxed)->run(op, inputs, attrs, infer);
  }
  if (recording) finish_history(std::move(node), outputs);
  if (op.view)
    track_views(op, *inputs[0], outputs, attrs);
  else if (thread_state.inference_mode)
    for (const Tensor& output : outputs) output.impl().inference = true;
  return outputs;
}

Tensors dispatch(const OpBase& op, Args inputs, const void* attrs, CallInfo info) {
  const ProfilerRange range(op.name);
  if (info.divided) [[unlikely]]
    return dispatch_divided(op, inputs, attrs, info);
  const auto [device, recording, divided] = info;
  if (runs_reference(op, device, recording))
    return run_reference(op, inputs, device, attrs, recording);
  if (thread_state.deferral && !op.view) [[unlikely]] {
    Tensors foreseen;
    if (is_foreseen(op, inputs, attrs, info, foreseen)) return foreseen;
  }

  Infer infer(op.name, inputs, device);
  op.infer(op, infer, attrs);
  Tensors outputs;
  const bool defers =
      thread_state.deferral && !op.view && !infer.device.is_meta() && op.has_kernel(device.type);
  for (const OutputSpec& spec : infer.outputs)
    outputs.push_back(defers ? make_deferred_output(op, spec, infer.device)
                             : make_output(op, inputs, spec, infer.device));
  IntrusivePtr<OpNode> node;
  if (recording) node = begin_history(op, inputs, attrs, device);
  if (!op.view && !device.is_meta()) run_or_defer(op, inputs, outputs, infer, device, attrs);
  if (recording) finish_history(std::move(node), outputs);
  if (op.view)
    track_views(op, *inputs[0], outputs, attrs);
  else if (thread_state.inference_mode)
    for (const Tensor& output : outputs) output.impl().inference = true;
  return outputs;
}

// Where the device has no kernel for the op, the definition computes a new tensor, which is copied
// into the target.
void run_inplace_kernel(const OpBase& op, Args inputs, std::span<const Tensor> targets,
                        const Infer& infer, Device device, const void* attrs) {
  if (!op.has_reference || op.has_kernel(device.type)) {
    run_or_defer(op, inputs, targets, infer, device, attrs);
    return;
  }
  const no_grad silent;
  const Tensors results = dispatch(op, inputs, attrs, inspect_inputs(op, inputs));
  for (size_t i = 0; i < targets.size(); ++i) engine_ops().copy_(targets[i], results[i]);
}

// Hands a call to the topmost interceptor; what that one calls goes to the ones below it.
[[gnu::noinline]] Tensors intercepted(const Call& call) {
  struct Lowered {
    Interceptor* top = thread_state.interceptor;
    Lowered() { thread_state.interceptor = top->below(); }
    ~Lowered() { thread_state.interceptor = top; }
  } lowered;
  return lowered.top->intercept(call);
}

// The slow path: autocast may change the inputs, or an interceptor sees the call first.
[[gnu::noinline]] Tensors dispatch_observed(const OpBase& op, Args inputs, const void* attrs) {
  const auto run = [&](Args given) {
    if (thread_state.interceptor) return intercepted({op, given, attrs});
    return dispatch(op, given, attrs, inspect_inputs(op, given));
  };
  // An op that has no policy may be defined by ops that have one.
  if (effective_policy(op.autocast, inputs) == Autocast::as_is) return run(inputs);
  return run(AutocastCall(op.name, op.autocast, inputs).inputs());
}

// Keeps the strides of a dense tensor: some kernels need operands of the same layout.
Tensor detached_copy(const Tensor& tensor) {
  const bool dense = is_dense(tensor.sizes(), tensor.strides());
  Tensor copy =
      make_tensor(tensor.sizes(), dense ? tensor.strides() : contiguous_strides(tensor.sizes()),
                  tensor.dtype(), tensor.device());
  const no_grad silent;
  engine_ops().copy_(copy, tensor);
  return copy;
}

}  // namespace

namespace detail {

Tensors apply_all(const OpBase& op, Args inputs, const void* attrs) {
  require_library();
  if (is_autocast_enabled() || thread_state.interceptor) [[unlikely]]
    return dispatch_observed(op, inputs, attrs);
  return dispatch(op, inputs, attrs, inspect_inputs(op, inputs));
}

Tensor apply_one(const OpBase& op, Args inputs, const void* attrs) {
  require_library();
  if (is_autocast_enabled() || thread_state.interceptor) [[unlikely]]
    return std::move(dispatch_observed(op, inputs, attrs)[0]);
  const CallInfo info = inspect_inline(op, inputs);
  // The fast path: a kernel fills one new tensor.
  const bool by_reference =
      info.recording && op.has_reference && op.gradient == Gradient::by_reference;
  if (!by_reference && !op.view && op.infer && op.has_kernel(info.device.type) &&
      !thread_state.inference_mode && !thread_state.deferral && !info.divided) {
    const ProfilerRange range(op.name);
    Infer infer(op.name, inputs, info.device);
    op.infer(op, infer, attrs);
    Tensor output = make_output(op, inputs, infer.outputs[0], infer.device);
    IntrusivePtr<OpNode> node;
    if (info.recording) node = begin_history(op, inputs, attrs, info.device);
    run_kernel(op, inputs, {&output, 1}, infer, info.device, attrs);
    if (info.recording) finish_history(std::move(node), {&output, 1});
    return output;
  }
  return std::move(dispatch(op, inputs, attrs, info)[0]);
}

const Tensor& apply_inplace(const OpBase& op, Args inputs, const void* attrs) {
  require_library();
  if (thread_state.interceptor) [[unlikely]] {
    intercepted({op, inputs, attrs, true});
    return *inputs[0];
  }
  CallInfo info = inspect_inputs(op, inputs);
  // An integer tensor can be written to, but never gets a history.
  info.recording &= is_differentiable(inputs[0]->dtype());
  const auto [device, recording, divided] = info;
  // An op that is differentiated through its definition writes a new tensor, which is copied in.
  if (!op.infer || (recording && op.gradient == Gradient::by_reference)) {
    check_inplace(*inputs[0], op.name, recording);
    const Tensor result = std::move(dispatch(op, inputs, attrs, info)[0]);
    engine_ops().copy_(*inputs[0], result);
    return *inputs[0];
  }
  const ProfilerRange range(op.name);
  Infer infer(op.name, inputs, device);
  op.infer(op, infer, attrs);
  // Output number i is written into input number i.
  const size_t written = infer.outputs.size();
  check(written <= inputs.size(), op.name, "_: ", written, " results do not fit in place into ",
        inputs.size(), " inputs");
  Tensors targets;
  for (size_t i = 0; i < written; ++i) {
    targets.push_back(*inputs[i]);
    check_inplace(targets[i], op.name, recording);
    check(device == targets[i].device(), op.name, "_: the tensor is on ", targets[i].device(),
          ", the other operands on ", device);
    check_result_fits(op, targets[i], infer.outputs[i]);
  }
  SmallVector<Tensor, 4> copies;  // of inputs that the writes would overwrite too early
  SmallVector<Arg, 4> safe;
  copies.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_overwritten_early(op, targets, inputs, i))
      safe.emplace_back(copies.emplace_back(detached_copy(*inputs[i])));
    else
      safe.push_back(inputs[i]);
  }
  check(!recording || written == 1, op.name,
        "_: writes several tensors in place, which has no gradient; use no_grad");
  IntrusivePtr<OpNode> node;
  if (recording) {
    node = IntrusivePtr<OpNode>::adopt(new OpNode(op, attrs));
    node->take_queue(device);
    node->connect(inputs);
    node->save_inputs(inputs, targets);
  }
  if (divided) [[unlikely]] {
    const no_grad silent;
    divided_tensors.load(std::memory_order_relaxed)->run_inplace(op, safe, targets, attrs, infer);
  } else if (!device.is_meta()) {
    run_inplace_kernel(op, safe, targets, infer, device, attrs);
  }
  for (const Tensor& target : targets) target.impl().storage->bump_version();
  if (recording) {
    if (thread_state.deferral) [[unlikely]]
      thread_state.deferral->meet_history(targets[0]);
    node->save_outputs(targets);
    rebase_history(targets[0], IntrusivePtr<Node>(std::move(node)));
  }
  return *inputs[0];
}

}  // namespace detail

Device device_of(const Call& call) { return inspect_inputs(call.op, call.inputs).device; }

Tensors Interceptor::proceed(const Call& call) {
  if (!call.inplace) return detail::apply_all(call.op, call.inputs, call.attrs);
  Tensors written;
  written.push_back(detail::apply_inplace(call.op, call.inputs, call.attrs));
  return written;
}

void detail::announce_read(const Tensor& tensor) { thread_state.interceptor->before_read(tensor); }

const OpRegistry& op_registry() { return library().ops; }

}  // namespace tensora
