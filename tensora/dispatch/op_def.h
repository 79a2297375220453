#pragma once

// What an op is, as kernels see it. This header, like the ops' headers that include it, only
// forward-declares Tensor: a new method or op does not recompile any kernel. An op's "room" is the
// family of files under tensora/ops that holds everything about it (docs/architecture.md).

#include <array>
#include <functional>
#include <span>

#include "tensora/core/kernel.h"
#include "tensora/core/tensor_options.h"
#include "tensora/dispatch/attr.h"

namespace tensora {

class Arg;
class Infer;
class Vjp;
using Args = std::span<const Arg>;
using Tensors = SmallVector<Tensor, 2>;

// ---- the parts of a description ----------------------------------------------------------------

/// The names of an op's inputs: `.inputs = {"self", "other"}`. "step?" may be undefined, or left
/// out at the end; "tensors..." stands for any number of inputs, at the end too.
class InputNames {
 public:
  static constexpr size_t kMost = 12;
  static constexpr size_t kUnlimited = ~size_t{0};

  constexpr InputNames() = default;
  constexpr InputNames(std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) add(name);
  }
  /// For an op that makes tensors from its attributes alone.
  static constexpr InputNames none() {
    InputNames names;
    names.stated_ = true;
    return names;
  }
  constexpr void add(std::string_view name) {
    stated_ = true;
    if (count_ == kMost)
      throw "an op has at most twelve named inputs; end with a list, \"name...\"";
    if (most_ == kUnlimited) throw "a list of inputs comes last";
    const bool optional = name.ends_with('?'), list = name.ends_with("...");
    name.remove_suffix(optional ? 1 : list ? 3 : 0);
    if (name.empty()) throw "an input needs a name";
    names_[count_] = name;
    optional_[count_++] = optional;
    most_ = list ? kUnlimited : count_;
    if (!optional && !list) least_ = count_;
  }

  constexpr bool stated() const { return stated_; }
  /// How many are named; the last may be a list.
  constexpr size_t size() const { return count_; }
  /// How many an op can be called with.
  constexpr size_t least() const { return least_; }
  constexpr size_t most() const { return most_; }
  constexpr bool ends_in_list() const { return most_ == kUnlimited; }
  /// The name of input number `i`; the inputs of a list share one name.
  constexpr std::string_view operator[](size_t i) const {
    return names_[i < count_ ? i : count_ - 1];
  }
  constexpr bool is_optional(size_t i) const { return i < count_ && optional_[i]; }

 private:
  std::string_view names_[kMost] = {};
  bool optional_[kMost] = {};
  size_t count_ = 0, least_ = 0, most_ = 0;
  bool stated_ = false;
};

/// A set of an op's inputs and outputs. The last bit stands for all that follow.
struct Slots {
  static constexpr int kLast = 63;
  uint64_t inputs = 0, outputs = 0;

  constexpr Slots operator|(Slots other) const {
    return {inputs | other.inputs, outputs | other.outputs};
  }
  constexpr bool has_input(size_t i) const { return inputs >> (i < kLast ? i : kLast) & 1; }
  constexpr bool has_output(size_t i) const { return outputs >> (i < kLast ? i : kLast) & 1; }
  static consteval uint64_t bit(int i) {
    if (i < 0 || i >= kLast) throw "single inputs and outputs count from 0 to 62; see in_from";
    return uint64_t{1} << i;
  }
};
/// Input `i`, or output `i`.
consteval Slots in(int i) { return {Slots::bit(i), 0}; }
consteval Slots out(int i) { return {0, Slots::bit(i)}; }
/// Input `i` and all that follow.
consteval Slots in_from(int i) { return {~(Slots::bit(i) - 1), 0}; }

/// What an op's gradient needs to keep: `.saves = {in(1), in(0)}` keeps input 1 for the gradient of
/// input 0 and the other way round; `Saves{in(1)}.rest(in(0))` input 0 for all other inputs.
class Saves {
 public:
  static constexpr size_t kMost = 8;

  constexpr Saves() = default;
  constexpr Saves(std::initializer_list<Slots> listed) {
    if (listed.size() > kMost) throw "at most eight inputs are listed; give the others by rest()";
    for (Slots slots : listed) listed_[count_++] = slots;
  }
  constexpr Saves rest(Slots slots) const {
    Saves result = *this;
    result.rest_ = slots;
    return result;
  }
  /// What the gradient of input `i` needs.
  constexpr Slots operator[](size_t i) const { return i < count_ ? listed_[i] : rest_; }

 private:
  Slots listed_[kMost] = {};
  Slots rest_ = {};
  size_t count_ = 0;
};

enum class Gradient : uint8_t {
  unstated,            // refused by define()
  vjp,                 // by the rule `.vjp`
  by_reference,        // `.reference` is recorded instead, op by op
  not_differentiable,  // stated explicitly; a backward that needs it throws, naming the op
};

/// What automatic mixed precision does to an op's floating inputs; float64 stays as it is.
enum class Autocast : uint8_t {
  as_is,
  lower,    // they become what the scope asks for
  full,     // they become float32
  widest,   // they become float32 if one of them is
  refused,  // the op throws: its results would not be usable
};
/// PyTorch's lists for the CPU and for GPUs differ: `.autocast = {Autocast::as_is, Autocast::full}`
/// is the policy on the CPU and the one on all other devices; a single one holds for both.
struct AutocastPolicy {
  constexpr AutocastPolicy(Autocast everywhere = Autocast::as_is)
      : AutocastPolicy(everywhere, everywhere) {}
  constexpr AutocastPolicy(Autocast on_cpu, Autocast on_others) : cpu(on_cpu), others(on_others) {}
  constexpr Autocast on(DeviceType type) const { return type == DeviceType::cpu ? cpu : others; }

  Autocast cpu, others;
};

/// The description of an op. See docs/add-an-op.md.
template <class Attrs>
struct Op {
  std::string_view name;
  InputNames inputs;
  bool primitive = false;  // has no definition in other ops: every device needs a kernel for it
  bool internal = false;   // does not check its arguments; only our own code calls it
  void (*infer)(Infer&, const Attrs&) = nullptr;
  Tensors (*reference)(Args, const Attrs&) = nullptr;
  void (*vjp)(Vjp&, const Attrs&) = nullptr;
  Saves saves = {};
  Gradient gradient = Gradient::unstated;
  AutocastPolicy autocast = Autocast::as_is;
  bool view = false;         // the output shares input 0's storage
  bool pointwise = false;    // element i of the output depends on element i of the inputs alone
  bool cpu_scalars = false;  // 0-dim CPU inputs may join tensors of another device
  bool any_device = false;   // inputs may be on different devices
  bool addresses_storage = false;  // a view whose attributes refer to the storage
  /// The dtypes of inputs and outputs; the dispatcher refuses others by name. Views, and ops that
  /// have only a reference, accept all.
  DTypeSet accepts = kRealDTypes;
};

// ---- ops ---------------------------------------------------------------------------------------

/// The part of an op that needs no knowledge of its attributes' type.
struct OpBase {
  std::string_view name;
  InputNames inputs;
  Gradient gradient;
  AutocastPolicy autocast;
  bool view, pointwise, cpu_scalars, any_device, addresses_storage, internal, primitive;
  bool random;  // draws from the random stream: its attributes have a `seed` and an `offset`
  bool has_reference;
  Saves saves;
  DTypeSet accepts;
  uint32_t attrs_size;

  // Thunks to the typed parts; `infer` is null for composites that are only a reference.
  void (*infer)(const OpBase&, Infer&, const void* attrs);
  Tensors (*reference)(const OpBase&, Args, const void* attrs);
  void (*vjp)(const OpBase&, Vjp&, const void* attrs);
  void (*run_kernel)(const OpBase&, const KernelContext&, const void* attrs);
  void (*copy_attrs)(void* to, const void* from);
  void (*destroy_attrs)(void* attrs);
  AttrWords (*attr_words)(const void* attrs);
  std::vector<std::pair<std::string_view, AttrValue>> (*list_attrs)(const void* attrs);
  /// Calls `body` with default attributes changed by `values`; unknown names and values that do
  /// not fit throw.
  void (*with_attrs)(const OpBase&, std::span<const std::pair<std::string, AttrValue>> values,
                     const std::function<void(const void* attrs)>& body);

  // One kernel slot per kind of device; OpDef<Attrs> knows the type of the function in it.
  using AnyKernel = void (*)();
  mutable AnyKernel kernels[kDeviceTypeCount];

  bool has_kernel(DeviceType device) const { return kernel_slot(device) != nullptr; }
  /// Kernels are set while their library is being opened; other threads may already read the slots.
  AnyKernel kernel_slot(DeviceType device) const {
    return __atomic_load_n(&kernels[static_cast<int>(device)], __ATOMIC_ACQUIRE);
  }
};

/// Equality of two calls' attributes by their bits, and a hash that agrees with it.
bool attrs_equal(const OpBase& op, const void* a, const void* b);
size_t attrs_hash(const OpBase& op, const void* attrs);

template <class Attrs>
using Kernel = void (*)(const KernelContext&, const Attrs&);

/// An op as its room describes it.
template <class Attrs>
struct OpDef : OpBase {
  Op<Attrs> typed;

  void set_kernel(DeviceType device, Kernel<Attrs> kernel) const {
    __atomic_store_n(&kernels[static_cast<int>(device)], reinterpret_cast<AnyKernel>(kernel),
                     __ATOMIC_RELEASE);
  }
  Kernel<Attrs> kernel(DeviceType device) const {
    return reinterpret_cast<Kernel<Attrs>>(kernel_slot(device));
  }
};

}  // namespace tensora
