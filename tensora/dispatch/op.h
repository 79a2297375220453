#pragma once

#include <array>
#include <atomic>
#include <type_traits>

#include "tensora/autograd/node.h"
#include "tensora/core/kernel.h"
#include "tensora/core/tensor.h"

namespace tensora {

/// An input of an op: a reference to a tensor that outlives the call. May refer to an undefined
/// tensor where an input is optional.
class Arg {
 public:
  Arg(const Tensor& tensor) : tensor_(&tensor) {}
  const Tensor& operator*() const { return *tensor_; }
  const Tensor* operator->() const { return tensor_; }

 private:
  const Tensor* tensor_;
};
using Args = std::span<const Arg>;

/// The inputs of an op given as a list of tensors.
SmallVector<Arg, 8> args_of(std::span<const Tensor> tensors);

// ---- attributes ------------------------------------------------------------------------------

template <class Struct, class Member>
struct Field {
  std::string_view name;
  Member Struct::*member;
};
/// One attribute in the field list of `describe`.
template <class Struct, class Member>
constexpr Field<Struct, Member> field(std::string_view name, Member Struct::*member) {
  return {name, member};
}
/// The field list itself: something that calls `body` with all fields. A closure, because a
/// std::tuple per op would be most of what including the ops costs.
template <class... Fields>
constexpr auto fields(Fields... listed) {
  return [=](auto&& body) { body(listed...); };
}

/// For ops without attributes.
struct NoAttrs {};
constexpr auto describe(std::type_identity<NoAttrs>) { return fields(); }

/// An attribute's value, for whatever treats ops generically: printing, hashing, Python's keyword
/// arguments, saved graphs.
struct AttrValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    floating,
    ints,
    dtype,
    text
  } kind = Kind::none;
  int64_t integer = 0;
  double floating = 0;
  Shape ints;
  std::string text;
};
void append(std::string& out, const AttrValue& value);
/// "alpha=2, dim=[0, 1]"
std::string to_string(std::span<const std::pair<std::string_view, AttrValue>> attrs);
AttrValue to_attr_value(bool value);
AttrValue to_attr_value(int value);
AttrValue to_attr_value(int64_t value);
AttrValue to_attr_value(uint64_t value);
AttrValue to_attr_value(float value);
AttrValue to_attr_value(double value);
AttrValue to_attr_value(Scalar value);
AttrValue to_attr_value(DType value);
AttrValue to_attr_value(Device value);
AttrValue to_attr_value(const Shape& value);
void from_attr_value(const AttrValue& from, bool& to);
void from_attr_value(const AttrValue& from, int& to);
void from_attr_value(const AttrValue& from, int64_t& to);
void from_attr_value(const AttrValue& from, uint64_t& to);
void from_attr_value(const AttrValue& from, float& to);
void from_attr_value(const AttrValue& from, double& to);
void from_attr_value(const AttrValue& from, Scalar& to);
void from_attr_value(const AttrValue& from, DType& to);
void from_attr_value(const AttrValue& from, Device& to);
void from_attr_value(const AttrValue& from, Shape& to);
template <class E>
  requires std::is_enum_v<E>
AttrValue to_attr_value(E value) {
  return to_attr_value(static_cast<int64_t>(value));
}
template <class E>
  requires std::is_enum_v<E>
void from_attr_value(const AttrValue& from, E& to) {
  int64_t number = 0;
  from_attr_value(from, number);
  to = static_cast<E>(number);
}
template <class T>
AttrValue to_attr_value(const std::optional<T>& value) {
  return value ? to_attr_value(*value) : AttrValue{};
}
template <class T>
void from_attr_value(const AttrValue& from, std::optional<T>& to) {
  to.reset();
  if (from.kind != AttrValue::Kind::none) from_attr_value(from, to.emplace());
}

// ---- what the parts of an op see -------------------------------------------------------------

/// One output as `infer` describes it.
struct OutputSpec {
  Shape sizes;
  Strides strides;     // only read if not `row_major`
  int64_t offset = 0;  // views only: in elements, from the start of the storage
  DType dtype = DType::float32;
  bool row_major = true;
};

/// The context of `infer`: reads the inputs, checks the user's arguments, describes the outputs.
class Infer {
 public:
  Infer(std::string_view op_name, Args op_inputs, Device op_device)
      : op(op_name), inputs(op_inputs), device(op_device) {}

  /// Throws if there are not that many inputs, as can happen when an op is called by its name.
  const Tensor& operator[](size_t i) const {
    if (i >= inputs.size()) [[unlikely]]
      fail_input_count("at least ", i + 1);
    return *inputs[i];
  }
  void expect_inputs(size_t count) const {
    if (inputs.size() != count) [[unlikely]]
      fail_input_count("", count);
  }
  template <class... Parts>
  void check(bool ok, const Parts&... parts) const {
    if (!ok) [[unlikely]]
      fail(op, ": ", parts...);
  }
  /// An output with row-major strides.
  void output(const Shape& sizes, DType dtype) {
    OutputSpec& spec = outputs.emplace_back();
    spec.sizes = sizes;
    spec.dtype = dtype;
  }
  /// An output with given strides.
  void output(const Shape& sizes, const Strides& strides, DType dtype) {
    outputs.push_back({sizes, strides, 0, dtype, false});
  }
  /// For view ops: the output lies in the storage of input 0.
  void view(const Shape& sizes, const Strides& strides, int64_t offset) {
    outputs.push_back({sizes, strides, offset, inputs[0]->dtype(), false});
  }

  std::string_view op;
  Args inputs;
  Device device;                         // of the outputs; `infer` may change it
  DType compute_dtype = DType::float32;  // pointwise ops: in which the inputs meet
  SmallVector<OutputSpec, 2> outputs;

 private:
  [[noreturn]] void fail_input_count(std::string_view bound, size_t count) const;
};

class OpNode;

/// What a gradient rule sees: the gradients of the outputs, the saved tensors, and which inputs
/// want a gradient. Rules are written in differentiable ops, so higher orders follow.
class Vjp {
 public:
  Vjp(OpNode& node, Tensors& grads, Tensors& results)
      : node_(node), grads_(grads), results_(results) {}

  /// The gradient of an output; undefined if nothing depended on that output.
  const Tensor& grad(size_t output = 0) const { return grads_[output]; }
  /// A saved input or output; throws if it was changed in place since.
  Tensor input(size_t i) const;
  Tensor output(size_t i = 0) const;
  bool needs(size_t i) const;
  const Shape& input_sizes(size_t i) const;
  DType input_dtype(size_t i) const;
  size_t input_count() const;
  /// The gradient of input `i`. May still have the broadcast shape or a wider dtype: the engine
  /// sums and casts it to the input's.
  void set(size_t i, Tensor grad) { results_[i] = std::move(grad); }

 private:
  OpNode& node_;
  Tensors& grads_;
  Tensors& results_;
};

// What an op's gradient needs to keep: `.saves = {in(1), in(0)}` keeps input 1 for the gradient of
// input 0 and the other way round. The last entry serves all further inputs.
constexpr uint32_t in(int i) { return 1u << i; }
constexpr uint32_t out(int i) { return 1u << (16 + i); }
using Saves = std::array<uint32_t, 4>;

enum class Gradient : uint8_t {
  unstated,            // refused by define()
  vjp,                 // by the rule `.vjp`
  by_reference,        // `.reference` is recorded instead, op by op
  not_differentiable,  // said out loud; a backward that needs it throws, naming the op
};

/// What automatic mixed precision does to an op's floating inputs.
enum class Autocast : uint8_t { as_is, lower, full };

/// The description of an op. See docs/add-an-op.md.
template <class Attrs>
struct Op {
  std::string_view name;
  void (*infer)(Infer&, const Attrs&) = nullptr;
  Tensors (*reference)(Args, const Attrs&) = nullptr;
  void (*vjp)(Vjp&, const Attrs&) = nullptr;
  Saves saves = {};
  Gradient gradient = Gradient::unstated;
  Autocast autocast = Autocast::as_is;
  bool view = false;         // the output shares input 0's storage
  bool pointwise = false;    // element i of the output depends on element i of the inputs alone
  bool cpu_scalars = false;  // 0-dim CPU inputs may join tensors of another device
  bool any_device = false;   // inputs on different devices are meant
  /// The dtypes of inputs and outputs; others are refused at the door, by name. Views, and ops
  /// that are a reference alone, take all.
  DTypeSet accepts = kRealDTypes;
};

/// The part of an op that needs no knowledge of its attributes' type.
struct OpBase {
  std::string_view name;
  Gradient gradient;
  Autocast autocast;
  bool view, pointwise, cpu_scalars, any_device;
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
  std::vector<std::pair<std::string_view, AttrValue>> (*list_attrs)(const void* attrs);
  /// Calls `body` with default attributes changed by `values`; unknown names throw.
  void (*with_attrs)(const OpBase&, std::span<const std::pair<std::string, AttrValue>> values,
                     const std::function<void(const void* attrs)>& body);

  // One kernel slot per kind of device; what is in them is known to OpDef<Attrs>.
  using AnyKernel = void (*)();
  mutable AnyKernel kernels[kDeviceTypeCount];

  bool has_kernel(DeviceType device) const { return kernel_slot(device) != nullptr; }
  /// Kernels are set while their library is being opened; several threads may already look.
  AnyKernel kernel_slot(DeviceType device) const {
    return std::atomic_ref(kernels[static_cast<int>(device)]).load(std::memory_order_acquire);
  }
};

template <class Attrs>
using Kernel = void (*)(const KernelContext&, const Attrs&);

/// An op as its room describes it.
template <class Attrs>
struct OpDef : OpBase {
  Op<Attrs> typed;

  void set_kernel(DeviceType device, Kernel<Attrs> kernel) const {
    std::atomic_ref(kernels[static_cast<int>(device)])
        .store(reinterpret_cast<AnyKernel>(kernel), std::memory_order_release);
  }
  Kernel<Attrs> kernel(DeviceType device) const {
    return reinterpret_cast<Kernel<Attrs>>(kernel_slot(device));
  }
};

namespace detail {

template <class Attrs>
const OpDef<Attrs>& typed(const OpBase& op) {
  return static_cast<const OpDef<Attrs>&>(op);
}
template <class Attrs>
const Attrs& attrs_of(const void* attrs) {
  return *static_cast<const Attrs*>(attrs);
}

template <class Attrs>
std::vector<std::pair<std::string_view, AttrValue>> list_attrs(const void* attrs) {
  std::vector<std::pair<std::string_view, AttrValue>> result;
  describe(std::type_identity<Attrs>{})([&](auto... listed) {
    (result.emplace_back(listed.name, to_attr_value(attrs_of<Attrs>(attrs).*listed.member)), ...);
  });
  return result;
}

[[noreturn]] void fail_unknown_attr(std::string_view op, std::string_view attr);

template <class Attrs>
void with_attrs(const OpBase& op, std::span<const std::pair<std::string, AttrValue>> values,
                const std::function<void(const void*)>& body) {
  Attrs attrs{};
  for (const auto& [wanted, value] : values) {
    bool found = false;
    describe(std::type_identity<Attrs>{})([&](auto... listed) {
      ((listed.name == wanted ? (from_attr_value(value, attrs.*listed.member), found = true)
                              : false),
       ...);
    });
    if (!found) fail_unknown_attr(op.name, wanted);
  }
  body(&attrs);
}

}  // namespace detail

/// Completes a description. Runs at compile time and refuses an op whose gradient nobody stated.
template <class Attrs>
consteval OpDef<Attrs> define(Op<Attrs> op) {
  if (op.gradient == Gradient::unstated && op.vjp) op.gradient = Gradient::vjp;
  if (op.gradient == Gradient::unstated)
    throw "an op needs .vjp, or .gradient = by_reference or not_differentiable";
  if (op.gradient == Gradient::vjp && !op.vjp) throw "Gradient::vjp needs .vjp";
  if (op.gradient == Gradient::by_reference && !op.reference) throw "by_reference needs .reference";
  if (!op.infer && !op.reference) throw "an op needs .infer, or .reference alone for a composite";
  OpDef<Attrs> def{};
  def.name = op.name;
  def.gradient = op.gradient;
  def.autocast = op.autocast;
  def.view = op.view;
  def.pointwise = op.pointwise;
  def.cpu_scalars = op.cpu_scalars;
  def.any_device = op.any_device;
  def.has_reference = op.reference != nullptr;
  def.saves = op.saves;
  def.accepts = op.view || !op.infer ? kAllDTypes : op.accepts;
  def.attrs_size = sizeof(Attrs);
  using detail::attrs_of, detail::typed;
  if (op.infer)
    def.infer = [](const OpBase& base, Infer& infer, const void* attrs) {
      typed<Attrs>(base).typed.infer(infer, attrs_of<Attrs>(attrs));
    };
  def.reference = [](const OpBase& base, Args in, const void* attrs) {
    return typed<Attrs>(base).typed.reference(in, attrs_of<Attrs>(attrs));
  };
  def.vjp = [](const OpBase& base, Vjp& vjp, const void* attrs) {
    typed<Attrs>(base).typed.vjp(vjp, attrs_of<Attrs>(attrs));
  };
  def.run_kernel = [](const OpBase& base, const KernelContext& context, const void* attrs) {
    typed<Attrs>(base).kernel(context.device.type)(context, attrs_of<Attrs>(attrs));
  };
  def.copy_attrs = [](void* to, const void* from) { new (to) Attrs(attrs_of<Attrs>(from)); };
  def.destroy_attrs = [](void* attrs) { static_cast<Attrs*>(attrs)->~Attrs(); };
  def.list_attrs = detail::list_attrs<Attrs>;
  def.with_attrs = detail::with_attrs<Attrs>;
  def.typed = op;
  return def;
}

// ---- the one door ----------------------------------------------------------------------------

namespace detail {
Tensor apply_one(const OpBase& op, Args inputs, const void* attrs);
Tensors apply_all(const OpBase& op, Args inputs, const void* attrs);
const Tensor& apply_inplace(const OpBase& op, Args inputs, const void* attrs);
}  // namespace detail

/// Runs an op with one output. See Note [The one door] in dispatch/apply.cpp.
template <class Attrs>
Tensor apply(const OpDef<Attrs>& op, std::initializer_list<Arg> inputs,
             const std::type_identity_t<Attrs>& attrs = {}) {
  return detail::apply_one(op, {inputs.begin(), inputs.size()}, &attrs);
}
template <class Attrs>
Tensor apply(const OpDef<Attrs>& op, Args inputs, const std::type_identity_t<Attrs>& attrs = {}) {
  return detail::apply_one(op, inputs, &attrs);
}
/// Runs an op with several outputs.
template <class Attrs>
Tensors apply_all(const OpDef<Attrs>& op, std::initializer_list<Arg> inputs,
                  const std::type_identity_t<Attrs>& attrs = {}) {
  return detail::apply_all(op, {inputs.begin(), inputs.size()}, &attrs);
}
/// Runs an op and writes the result into its first input.
template <class Attrs>
const Tensor& apply_inplace(const OpDef<Attrs>& op, std::initializer_list<Arg> inputs,
                            const std::type_identity_t<Attrs>& attrs = {}) {
  return detail::apply_inplace(op, {inputs.begin(), inputs.size()}, &attrs);
}

// ---- the list of all ops ---------------------------------------------------------------------

/// All ops, filled from the generated list of rooms; for tools, bindings and tests.
class OpRegistry {
 public:
  void add(const OpBase& op);
  std::span<const OpBase* const> all() const { return ops_; }
  /// Null if there is none of that name.
  const OpBase* find(std::string_view name) const;

 private:
  std::vector<const OpBase*> ops_;
};
/// Fills the kernel slots of the CPU and the registry at the first call.
const OpRegistry& op_registry();
/// Applies an op by name and attribute values, as bindings and saved graphs do.
Tensors apply_by_name(std::string_view name, std::span<const Tensor> inputs,
                      std::span<const std::pair<std::string, AttrValue>> attrs);

}  // namespace tensora
