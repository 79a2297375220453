#pragma once

// Kernels of a user as ops: with gradients, on meta tensors, in traces and lazy scopes.

#include "tensora/dispatch/op.h"
#include "tensora/jit/kernel.h"

namespace tensora::jit {

/// The numbers that a kernel gets after its arrays.
struct KernelNumbers {
  std::vector<double> numbers = {};
};
constexpr auto describe(std::type_identity<KernelNumbers>) {
  return fields(field("numbers", &KernelNumbers::numbers));
}

/// What an op says about a kernel. The kernel's arrays are the inputs, then the outputs.
struct KernelOpOptions {
  using Numbers = std::span<const double>;
  std::vector<std::string> inputs = {};
  /// Checks the inputs and describes the outputs; required. See docs/add-an-op.md.
  std::function<void(Infer&, Numbers)> infer = {};
  /// The gradient, in differentiable ops, with what it needs to keep. Without one the gradient is
  /// that of `reference`.
  std::function<void(Vjp&, Numbers)> vjp = {};
  Saves saves = {};
  /// The same in ops of the library: what check_kernel_op compares with.
  std::function<Tensors(Args, Numbers)> reference = {};
  /// Arguments on which check_kernel_op tries the op.
  struct Case {
    std::vector<Tensor> inputs;
    std::vector<double> numbers = {};
  };
  std::vector<Case> cases = {};
};

/// A kernel behind the door that all ops use (Note [The one door]): new tensors for the results,
/// gradients, autocast, meta tensors, tracing, lazy scopes, profiling. Copies share the op, which
/// lives as long as the process.
class KernelOp {
 public:
  Tensors call(std::span<const Tensor> inputs, std::span<const double> numbers = {}) const;
  /// One output; numbers come after the tensors.
  template <class... Inputs>
  Tensor operator()(const Inputs&... args) const {
    std::vector<Tensor> tensors;
    std::vector<double> numbers;
    const auto collect = [&](const auto& arg) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(arg)>>)
        numbers.push_back(static_cast<double>(arg));
      else
        tensors.emplace_back(arg);
    };
    (collect(args), ...);
    return call(tensors, numbers)[0];
  }
  const OpBase& op() const;
  const KernelOpOptions& options() const;

 private:
  struct Definition;
  friend KernelOp as_op(const AnyKernel& kernel, KernelOpOptions options);
  explicit KernelOp(const Definition* definition) : definition_(definition) {}
  const Definition* definition_;
};

/// Throws if the options are not complete: no name for an input, no `infer`, or a gradient that
/// follows from nothing.
KernelOp as_op(const AnyKernel& kernel, KernelOpOptions options);

/// Runs the op's cases and throws at the first mistake: results against `reference` in float64,
/// gradients against those of `reference`, meta tensors, transposed inputs, and a lazy scope, which
/// must all agree. `tolerance` is relative to the largest expected value.
void check_kernel_op(const KernelOp& op, double tolerance = 1e-4);

}  // namespace tensora::jit
