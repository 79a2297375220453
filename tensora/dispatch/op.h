#pragma once

#include <type_traits>

#include "tensora/core/tensor.h"
#include "tensora/dispatch/op_def.h"

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

/// The inputs of an op given as a list of tensors.
SmallVector<Arg, 8> args_of(std::span<const Tensor> tensors);

// ---- the contexts of an op's functions ------------------------------------------------------

/// One output as `infer` describes it.
struct OutputSpec {
  // Constructors: without them, every spec is first filled with zeros as a whole.
  OutputSpec() {}  // NOLINT(modernize-use-equals-default): a defaulted one fills with zeros too
  OutputSpec(const Shape& output_sizes, DType output_dtype)
      : sizes(output_sizes), dtype(output_dtype) {}
  OutputSpec(const Shape& output_sizes, const Strides& output_strides, int64_t output_offset,
             DType output_dtype)
      : sizes(output_sizes),
        strides(output_strides),
        offset(output_offset),
        dtype(output_dtype),
        row_major(false) {}

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

  const Tensor& operator[](size_t i) const { return *inputs[i]; }
  /// Whether an optional input was given.
  bool has(size_t i) const { return i < inputs.size() && inputs[i]->defined(); }
  template <class... Parts>
  void check(bool ok, const Parts&... parts) const {
    if (!ok) [[unlikely]]
      fail(op, ": ", parts...);
  }
  /// An output with row-major strides.
  void output(const Shape& sizes, DType dtype) { outputs.emplace_back(sizes, dtype); }
  /// An output with given strides.
  void output(const Shape& sizes, const Strides& strides, DType dtype) {
    outputs.emplace_back(sizes, strides, 0, dtype);
  }
  /// For view ops: the output lies in the storage of input 0.
  void view(const Shape& sizes, const Strides& strides, int64_t offset) {
    outputs.emplace_back(sizes, strides, offset, inputs[0]->dtype());
  }

  std::string_view op;
  Args inputs;
  Device device;                         // of the outputs; `infer` may change it
  DType compute_dtype = DType::float32;  // pointwise ops: in which the inputs meet
  SmallVector<OutputSpec, 2> outputs;
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

namespace detail {

template <class Attrs>
const OpDef<Attrs>& typed(const OpBase& op) {
  return static_cast<const OpDef<Attrs>&>(op);
}
template <class Attrs>
const Attrs& attrs_of(const void* attrs) {
  return *static_cast<const Attrs*>(attrs);
}

/// Whether the attributes have a field of that name.
template <class Attrs>
consteval bool has_attr(std::string_view name) {
  bool found = false;
  describe(std::type_identity<Attrs>{})(
      [&](auto... listed) { ((found = found || listed.name == name), ...); });
  return found;
}

[[noreturn]] void fail_unknown_attr(std::string_view op, std::string_view attr);

template <class Attrs>
void with_attrs(const OpBase& op, std::span<const std::pair<std::string, AttrValue>> values,
                const std::function<void(const void*)>& body) {
  Attrs attrs{};
  for (const auto& wanted : values) {  // no structured binding: clang 14 cannot capture one
    bool found = false;
    describe(std::type_identity<Attrs>{})([&](auto... listed) {
      ((listed.name == wanted.first
            ? (from_attr_value(AttrPlace{op.name, wanted.first}, wanted.second, listed.of(attrs)),
               found = true)
            : false),
       ...);
    });
    if (!found) fail_unknown_attr(op.name, wanted.first);
  }
  body(&attrs);
}

}  // namespace detail

/// Completes a description. Runs at compile time and rejects an op without names for its inputs, or
/// without a statement about its gradient or its definition.
template <class Attrs>
consteval OpDef<Attrs> define(Op<Attrs> op) {
  if (op.gradient == Gradient::unstated && op.vjp) op.gradient = Gradient::vjp;
  if (op.gradient == Gradient::unstated)
    throw "an op needs .vjp, or .gradient = by_reference or not_differentiable";
  if (op.gradient == Gradient::vjp && !op.vjp) throw "Gradient::vjp needs .vjp";
  if (op.gradient == Gradient::by_reference && !op.reference) throw "by_reference needs .reference";
  if (!op.infer && !op.reference) throw "an op needs .infer, or .reference alone for a composite";
  if (!op.inputs.stated()) throw "an op names its inputs: .inputs = {\"self\"}";
  if (!op.reference && !op.primitive && !op.view)
    throw "an op needs .reference, its definition in other ops, or says .primitive = true";
  if (op.reference && op.primitive) throw "an op with a .reference is not .primitive";
  OpDef<Attrs> def{};
  def.name = op.name;
  def.inputs = op.inputs;
  def.internal = op.internal;
  def.primitive = op.primitive;
  def.gradient = op.gradient;
  def.autocast = op.autocast;
  def.view = op.view;
  def.pointwise = op.pointwise;
  def.cpu_scalars = op.cpu_scalars;
  def.any_device = op.any_device;
  def.addresses_storage = op.addresses_storage;
  def.random = detail::has_attr<Attrs>("seed") && detail::has_attr<Attrs>("offset");
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
  def.attr_words = [](const void* attrs) {
    AttrWords words;
    append_words(words, attrs_of<Attrs>(attrs));
    return words;
  };
  def.list_attrs = [](const void* attrs) { return list_attrs(attrs_of<Attrs>(attrs)); };
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

/// Which ops a name reaches: those for users, or also those that trust their arguments, as a saved
/// graph needs.
enum class Reach : uint8_t { users, everything };
/// Applies an op by name and attribute values, as bindings and saved graphs do.
Tensors apply_by_name(std::string_view name, std::span<const Tensor> inputs,
                      std::span<const std::pair<std::string, AttrValue>> attrs,
                      Reach reach = Reach::users);

}  // namespace tensora
