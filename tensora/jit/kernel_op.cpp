#include "tensora/jit/kernel_op.h"

#include <cmath>
#include <deque>
#include <mutex>

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/jit/lazy.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::jit {
namespace {

// What all of these ops have in common; the functions are those of each one's definition.
constinit OpDef<KernelNumbers> prototype = define(Op<KernelNumbers>{
    .name = "kernel",
    .inputs = {"inputs..."},
    .infer = [](Infer&, const KernelNumbers&) {},
    .reference = [](Args, const KernelNumbers&) { return Tensors(); },
    .vjp = [](Vjp&, const KernelNumbers&) {},
});

std::span<const double> numbers_of(const void* attrs) {
  return static_cast<const KernelNumbers*>(attrs)->numbers;
}

}  // namespace

struct KernelOp::Definition : OpDef<KernelNumbers> {
  Definition(const jit::AnyKernel& of, KernelOpOptions given)
      : OpDef<KernelNumbers>(prototype), body(of), options(std::move(given)) {
    name = body.name();
    inputs = {};
    for (const std::string& input : options.inputs) inputs.add(input);
    saves = options.saves;
    has_reference = options.reference != nullptr;
    gradient = options.vjp ? Gradient::vjp : Gradient::by_reference;
    infer = [](const OpBase& op, Infer& infer, const void* attrs) {
      self(op).options.infer(infer, numbers_of(attrs));
    };
    reference = [](const OpBase& op, Args in, const void* attrs) {
      return self(op).options.reference(in, numbers_of(attrs));
    };
    vjp = [](const OpBase& op, Vjp& vjp, const void* attrs) {
      self(op).options.vjp(vjp, numbers_of(attrs));
    };
    run_kernel = [](const OpBase& op, const KernelContext& context, const void* attrs) {
      self(op).run(context, numbers_of(attrs));
    };
    // The slot only says that there is a kernel; `run_kernel` above does not look into it.
    for (DeviceType type : {DeviceType::cpu, DeviceType::cuda})
      set_kernel(type, [](const KernelContext&, const KernelNumbers&) {});
  }

  static const Definition& self(const OpBase& op) { return static_cast<const Definition&>(op); }

  void run(const KernelContext& context, std::span<const double> given) const {
    std::vector<View> arrays;
    for (const View* view : context.in) arrays.push_back(*view);
    for (const View* view : context.out) arrays.push_back(*view);
    std::vector<Scalar> numbers;
    for (double number : given) {
      // An integer parameter takes integers exactly.
      const auto whole = static_cast<int64_t>(number);
      const bool is_whole = std::abs(number) < 0x1p53 && static_cast<double>(whole) == number;
      numbers.push_back(is_whole ? Scalar(whole) : Scalar(number));
    }
    body.run_on(arrays, numbers);
  }

  const jit::AnyKernel body;
  const KernelOpOptions options;
};

Tensors KernelOp::call(std::span<const Tensor> inputs, std::span<const double> numbers) const {
  const KernelNumbers attrs{{numbers.begin(), numbers.end()}};
  const SmallVector<Arg, 8> args = args_of(inputs);
  return tensora::detail::apply_all(*definition_, {args.data(), args.size()}, &attrs);
}

const OpBase& KernelOp::op() const { return *definition_; }
const KernelOpOptions& KernelOp::options() const { return definition_->options; }

KernelOp as_op(const AnyKernel& kernel, KernelOpOptions options) {
  check(!options.inputs.empty(), "as_op: kernel ", kernel.name(), " needs names of its inputs");
  for (const std::string& input : options.inputs)
    check(!input.empty() && !input.ends_with("?") && !input.ends_with("..."), "as_op: kernel ",
          kernel.name(), ": '", input, "' is not a name of an input");
  check(options.infer != nullptr, "as_op: kernel ", kernel.name(),
        " needs infer, which describes its outputs");
  check(options.vjp || options.reference, "as_op: kernel ", kernel.name(),
        " needs a gradient: vjp, or a reference in differentiable ops");
  // Graphs, plans and histories refer to ops, and ops stay.
  static std::mutex mutex;
  static auto& all = *new std::deque<KernelOp::Definition>;
  const std::lock_guard lock(mutex);
  return KernelOp(&all.emplace_back(kernel, std::move(options)));
}

namespace {

void require_close(std::string_view op, size_t number, std::string_view what, const Tensor& actual,
                   const Tensor& expected, double tolerance) {
  check(actual.sizes() == expected.sizes(), op, ", case ", number, ": ", what, " has shape ",
        actual.sizes(), ", expected ", expected.sizes());
  if (actual.numel() == 0) return;
  const Tensor wanted = expected.detach().to(kFloat64);
  const double difference = amax(abs(actual.detach().to(kFloat64) - wanted)).item<double>();
  const double scale = 1 + amax(abs(wanted)).item<double>();
  check(difference <= tolerance * scale, op, ", case ", number, ": ", what, " differs by ",
        difference, " where the largest expected value is ", scale - 1);
}

std::vector<Tensor> converted(std::span<const Tensor> tensors, bool wide, bool requires_grad) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) {
    const bool floating = is_floating_point(tensor.dtype());
    Tensor copy = tensor.detach().clone();
    if (wide && floating) copy = copy.to(kFloat64);
    if (requires_grad && floating) copy.requires_grad_();
    result.push_back(std::move(copy));
  }
  return result;
}

std::vector<Tensor> gradients(std::span<const Tensor> outputs, std::span<const Tensor> inputs) {
  Tensor total = zeros({}, {.dtype = kFloat64});
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].requires_grad())
      total = total + (outputs[i].to(kFloat64) * static_cast<double>(i + 1)).sum();
  std::vector<Tensor> wanted;
  for (const Tensor& input : inputs)
    if (input.requires_grad()) wanted.push_back(input);
  return grad(total, wanted);
}

}  // namespace

void check_kernel_op(const KernelOp& op, double tolerance) {
  const KernelOpOptions& options = op.options();
  const std::string_view name = op.op().name;
  check(options.reference != nullptr, name, ": a check needs a reference");
  check(!options.cases.empty(), name, ": a check needs cases");
  for (size_t n = 0; n < options.cases.size(); ++n) {
    const auto& [inputs, numbers] = options.cases[n];
    const std::vector<Tensor> plain = converted(inputs, false, false);
    const std::vector<Tensor> wide = converted(inputs, true, false);
    const SmallVector<Arg, 8> args = args_of(wide);
    const Tensors expected = options.reference({args.data(), args.size()}, numbers);
    const Tensors actual = op.call(plain, numbers);
    check(actual.size() == expected.size(), name, ", case ", n, ": ", actual.size(),
          " outputs, the reference has ", expected.size());
    std::vector<Tensor> meta, strided;
    for (const Tensor& input : plain) {
      meta.push_back(input.to(Device("meta")));
      strided.push_back(input.dim() < 2 ? input
                                        : input.transpose(0, 1).contiguous().transpose(0, 1));
    }
    const Tensors shapes = op.call(meta, numbers), other = op.call(strided, numbers);
    Tensors lazy;
    {
      const LazyScope scope;
      lazy = op.call(plain, numbers);
    }
    for (size_t i = 0; i < actual.size(); ++i) {
      require_close(name, n, concat("output ", i), actual[i], expected[i], tolerance);
      require_close(name, n, concat("output ", i, " of strided inputs"), other[i], expected[i],
                    tolerance);
      require_close(name, n, concat("output ", i, " in a lazy scope"), lazy[i], actual[i], 0);
      check(shapes[i].sizes() == actual[i].sizes() && shapes[i].dtype() == actual[i].dtype(), name,
            ", case ", n, ": output ", i, " of meta tensors has shape ", shapes[i].sizes());
    }
    const enable_grad recording;
    const std::vector<Tensor> mine = converted(inputs, false, true);
    const std::vector<Tensor> theirs = converted(inputs, true, true);
    const SmallVector<Arg, 8> their_args = args_of(theirs);
    const Tensors from_op = op.call(mine, numbers);
    const Tensors from_reference =
        options.reference({their_args.data(), their_args.size()}, numbers);
    const std::vector<Tensor> got = gradients({from_op.data(), from_op.size()}, mine);
    const std::vector<Tensor> wanted =
        gradients({from_reference.data(), from_reference.size()}, theirs);
    for (size_t i = 0; i < got.size(); ++i)
      require_close(name, n, concat("gradient ", i), got[i], wanted[i], tolerance * 10);
  }
}

}  // namespace tensora::jit
