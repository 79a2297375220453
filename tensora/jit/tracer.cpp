#include "tensora/jit/tracer.h"

#include "tensora/autograd/history.h"

#include <algorithm>

// Note [Writes as values]
// A graph is functional: it has values, not memory. Every storage that occurs has a root, a tensor
// of which all others in the storage are views, and the root's contents are a value. An in-place op
// becomes its functional form; the result is the root's next value or, if the target is a view, is
// written into the target's part of a copy of the root. Other tensors in the storage that are read
// later are extracted from the new value. Roots that are inputs or captured tensors get their last
// value written back at the end.

namespace tensora::jit {
namespace {

int64_t first_byte(const Tensor& tensor) {
  return bytes_of(tensor.dtype(), tensor.storage_offset());
}
int64_t end_byte(const Tensor& tensor) {
  int64_t last = 0;
  for (int d = 0; d < tensor.dim(); ++d) last += (tensor.sizes()[d] - 1) * tensor.strides()[d];
  return first_byte(tensor) + (tensor.numel() == 0 ? 0 : bytes_of(tensor.dtype(), last + 1));
}
bool reaches_beyond(const Tensor& part, const Tensor& base) {
  return part.numel() != 0 &&
         (first_byte(part) < first_byte(base) || end_byte(part) > end_byte(base));
}

bool lies_like(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}
bool contains(const Tensor& whole, const Tensor& part) {
  return lies_like(whole, part) ||
         (is_dense(whole.sizes(), whole.strides()) && !reaches_beyond(part, whole));
}

const Strides& strides_of(const OutputSpec& spec, Strides& row_major) {
  if (!spec.row_major) return spec.strides;
  return row_major = contiguous_strides(spec.sizes);
}

// Makes stand-ins plain meta tensors, so that the dispatcher checks a call and runs nothing.
class AsMeta {
 public:
  explicit AsMeta(std::span<const Tensor> tensors) : tensors_(tensors) {
    for (const Tensor& tensor : tensors)
      devices_.push_back(tensor.defined() ? tensor.device() : Device());
    for (const Tensor& tensor : tensors)
      if (tensor.defined()) tensor.impl().view.device = DeviceType::meta;
  }
  ~AsMeta() {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i].defined()) tensors_[i].impl().view.device = devices_[i];
  }
  AsMeta(const AsMeta&) = delete;
  AsMeta& operator=(const AsMeta&) = delete;

 private:
  std::span<const Tensor> tensors_;
  std::vector<Device> devices_;
};

// Every run of the graph is to draw new numbers: their beginning must be that of the trace's
// stream.
void check_stream(const Call& call) {
  for (const auto& [name, value] : call.op.list_attrs(call.attrs))
    check(name != "seed" || static_cast<uint64_t>(value.integer) == kTracedSeed, call.op.name,
          ": cannot be traced with a generator of its own (a GeneratorScope inside the function, "
          "or a seed given by name): every call would draw the same numbers; set the scope around "
          "the call");
}

}  // namespace

// Stand-ins that outlive the trace are ordinary meta tensors from now on.
Tracer::~Tracer() {
  for (const Tensor& tensor : stand_ins_) tensor.impl().view.device = DeviceType::meta;
}

int Tracer::add_value(const Shape& sizes, const Strides& strides, DType dtype, Device device) {
  graph_.values.push_back({sizes, strides, dtype, device, {}});
  return static_cast<int>(graph_.values.size()) - 1;
}
int Tracer::add_value(const Tensor& like) {
  return add_value(like.sizes(), like.strides(), like.dtype(), like.device());
}

int Tracer::add_part(int base_value, const Tensor& base, const Tensor& part) {
  if (lies_like(base, part)) return base_value;
  const int id = add_value(part);
  graph_.nodes.push_back(
      {.kind = GraphNode::Kind::view,
       .inputs = {base_value},
       .outputs = {id},
       .part = {part.sizes(), part.strides(), first_byte(part) - first_byte(base), part.dtype()}});
  return id;
}

void Tracer::add_root(const Tensor& stand_in, int value, int origin) {
  memories_[stand_in.impl().storage.get()].roots.push_back({stand_in, value, origin});
}

Tensor Tracer::kept(Tensor stand_in, Device device) {
  stand_in.impl().view.device = device;
  stand_ins_.push_back(stand_in);
  return stand_in;
}

Tensor Tracer::make_stand_in(const Tensor& like, const IntrusivePtr<Storage>& storage) {
  Tensor result =
      kept(make_view(storage, like.sizes(), like.strides(), like.storage_offset(), like.dtype()),
           like.device());
  result.impl().wrapped_number = like.impl().wrapped_number;
  result.impl().inference = like.is_inference();
  return result;
}

Tensor Tracer::add_input(const Tensor& tensor) {
  IntrusivePtr<Storage>& storage = input_storages_[tensor.impl().storage.get()];
  if (!storage) storage = Storage::allocate(tensor.impl().storage->bytes(), DeviceType::meta);
  Tensor stand_in = make_stand_in(tensor, storage);
  const int id = add_value(tensor);
  graph_.inputs.push_back(id);
  add_root(stand_in, id, id);
  known_[&stand_in.impl()] = {stand_in, id, 0};
  return stand_in;
}

Tracer::Known& Tracer::known(const Tensor& tensor) {
  const auto found = known_.find(&tensor.impl());
  return found != known_.end() ? found->second : capture(tensor);
}

// A tensor that no traced op made: the function had it already.
Tracer::Known& Tracer::capture(const Tensor& tensor) {
  const Storage* actual = tensor.impl().storage.get();
  check(!memories_.contains(actual), "jit: a view of a traced tensor was made without an op");
  IntrusivePtr<Storage>& storage = captured_storages_[actual];
  if (!storage) storage = Storage::allocate(actual->bytes(), DeviceType::meta);
  captured_.push_back(tensor);
  const Tensor stand_in = make_stand_in(tensor, storage);
  Memory& memory = memories_[storage.get()];
  if (memory.writes != 0) {
    const Root& root = memory.roots[0];
    check(contains(root.stand_in, tensor),
          "jit: the function wrote into a captured tensor that shares memory with this one, of "
          "shape ",
          tensor.sizes(), ", but does not contain it; clone one of them");
    return known_[&tensor.impl()] = {stand_in, add_part(root.value, root.stand_in, stand_in),
                                     memory.writes};
  }
  const int id = add_value(tensor);
  graph_.value(id).constant = tensor;
  add_root(stand_in, id, id);
  return known_[&tensor.impl()] = {stand_in, id, 0};
}

int Tracer::read(Known& known) {
  const Memory& memory = memory_of(known.stand_in);
  if (known.seen != memory.writes) {
    known.value = add_part(memory.roots[0].value, memory.roots[0].stand_in, known.stand_in);
    known.seen = memory.writes;
  }
  return known.value;
}

// The root that contains all others of its memory.
Tracer::Root& Tracer::sole_root(std::string_view op, Memory& memory) {
  std::vector<Root>& roots = memory.roots;
  for (size_t i = 0; i < roots.size() && roots.size() > 1; ++i)
    if (std::all_of(roots.begin(), roots.end(),
                    [&](const Root& other) { return contains(roots[i].stand_in, other.stand_in); }))
      roots = {Root(roots[i])};
  check(roots.size() == 1, op, "_: cannot be traced: ", described(roots[0].origin), " and ",
        described(roots.back().origin),
        " share the memory that is written, and neither contains the other; clone one of them");
  check(!may_overlap_itself(roots[0].stand_in.sizes(), roots[0].stand_in.strides()), op,
        "_: cannot be traced: ", described(roots[0].origin),
        ", which is written, has several elements at one memory location (it was expanded); "
        "clone it");
  return roots[0];
}

void Tracer::write(std::string_view op, Known& target, int result) {
  const Tensor& part = target.stand_in;
  Memory& memory = memory_of(part);
  Root& root = sole_root(op, memory);
  const Value& value = graph_.value(result);
  const bool fits = value.dtype == part.dtype() && value.strides == part.strides();
  const bool whole = lies_like(root.stand_in, part);
  if (memory.writes++ == 0) written_.push_back(part.impl().storage.get());
  if (whole && fits) {
    root.value = result;
  } else {
    const int id = add_value(root.stand_in);
    graph_.nodes.push_back({.kind = GraphNode::Kind::write,
                            .inputs = {root.value, result},
                            .outputs = {id},
                            .part = {part.sizes(), part.strides(),
                                     first_byte(part) - first_byte(root.stand_in), part.dtype()}});
    root.value = id;
  }
  if (!whole && !fits) return;  // to be extracted from the root when it is read
  target.value = fits ? result : root.value;
  target.seen = memory.writes;
}

GraphNode Tracer::node_of(const Call& call, const Infer& infer, std::span<Known* const> inputs) {
  GraphNode node{.op = &call.op, .attrs = AttrsCopy(call.op, call.attrs)};
  node.compute_dtype = infer.compute_dtype;
  node.random = call.op.random;
  if (node.random) check_stream(call);
  for (Known* input : inputs) node.inputs.push_back(input ? read(*input) : -1);
  for (const OutputSpec& spec : infer.outputs) {
    Strides row_major;
    node.outputs.push_back(
        add_value(spec.sizes, strides_of(spec, row_major), spec.dtype, infer.device));
  }
  return node;
}

Tensors Tracer::intercept(const Call& call) {
  return call.op.infer ? run_op(call) : run_definition(call);
}

// A composite op is traced as its parts.
Tensors Tracer::run_definition(const Call& call) {
  const InterceptorScope again(*this);
  Tensors results = call.op.reference(call.op, call.inputs, call.attrs);
  if (call.inplace) engine_ops().copy_(*call.inputs[0], results[0]);
  return results;
}

Tensors Tracer::run_op(const Call& call) {
  const Device device = device_of(call);
  std::vector<Known*> inputs;
  std::vector<Tensor> stand_ins;
  for (const Arg& input : call.inputs) {
    inputs.push_back(input->defined() ? &known(*input) : nullptr);
    stand_ins.push_back(input->defined() ? inputs.back()->stand_in : Tensor());
  }
  const SmallVector<Arg, 8> args = args_of(stand_ins);
  if (call.inplace) {
    check(device == stand_ins[0].device(), call.op.name, "_: the tensor is on ",
          stand_ins[0].device(), ", the other operands on ", device);
    const AsMeta meta(stand_ins);
    proceed({call.op, args, call.attrs, true});
  }
  Infer infer(call.op.name, args, device);
  call.op.infer(call.op, infer, call.attrs);
  if (call.op.view) return run_view(call, infer, *inputs[0]);
  GraphNode node = node_of(call, infer, inputs);
  const std::vector<int> results = node.outputs;
  graph_.nodes.push_back(std::move(node));
  Tensors outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    if (call.inplace) {
      write(call.op.name, *inputs[i], results[i]);
      outputs.push_back(*call.inputs[i]);
      continue;
    }
    const Value& value = graph_.value(results[i]);
    outputs.push_back(
        kept(make_tensor(value.sizes, value.strides, value.dtype, DeviceType::meta), value.device));
    outputs[i].impl().inference = thread_state.inference_mode;
    add_root(outputs[i], results[i], -1);
    known_[&outputs[i].impl()] = {outputs[i], results[i], 0};
  }
  return outputs;
}

Tensors Tracer::run_view(const Call& call, const Infer& infer, Known& input) {
  const int parent_value = read(input);
  Memory& memory = memory_of(input.stand_in);
  const bool by_storage = call.op.addresses_storage;
  const bool from_root = memory.roots.size() == 1 && (by_storage || !keeps_views_);
  const Tensor& base = from_root ? memory.roots[0].stand_in : input.stand_in;
  const int base_value = from_root ? memory.roots[0].value : parent_value;
  graph_.depends_on_offsets |= by_storage;
  Tensors outputs;
  for (const OutputSpec& spec : infer.outputs) {
    const Tensor output =
        kept(make_view(base.impl().storage, spec.sizes, spec.strides, spec.offset, spec.dtype),
             base.device());
    output.impl().inference = input.stand_in.is_inference();
    check(
        !by_storage || contains(base, output), call.op.name,
        ": cannot be traced: it may reach elements of the storage outside of the tensor of shape ",
        base.sizes(), " and strides ", base.strides());
    const int value = add_part(base_value, base, output);
    if (keeps_views_ && !from_root && value != base_value) {
      graph_.nodes.back().op = &call.op;
      graph_.nodes.back().attrs = AttrsCopy(call.op, call.attrs);
    }
    known_[&output.impl()] = {output, value, memory.writes};
    outputs.push_back(output);
  }
  return outputs;
}

std::string Tracer::described(int value) const {
  for (size_t i = 0; i < graph_.inputs.size(); ++i)
    if (graph_.inputs[i] == value) return concat("input ", i);
  for (const GraphNode& node : graph_.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), value) == node.outputs.end()) continue;
    return node.op ? concat("a result of '", node.op->name, "'") : described(node.inputs[0]);
  }
  return "a captured tensor";
}

void Tracer::before_read(const Tensor& tensor) {
  if (tensor.impl().wrapped_number) return;
  const auto found = known_.find(&tensor.impl());
  fail("jit: the function asks for the value of ",
       found == known_.end() ? "a captured tensor" : described(found->second.value),
       " while it is traced; what depends on data cannot be traced");
}

Graph Tracer::finish(std::span<const Tensor> outputs) {
  for (const Storage* storage : written_) {
    Root& root = memories_.at(storage).roots[0];
    if (root.origin < 0) continue;
    const int id = add_value(root.stand_in);
    graph_.nodes.push_back(
        {.kind = GraphNode::Kind::update, .inputs = {root.origin, root.value}, .outputs = {id}});
    root.value = id;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i].defined(), "jit: output ", i, " of the function is undefined");
    Known& output = known(outputs[i]);
    check(!output.stand_in.requires_grad(), "jit: output ", i,
          " of the function requires grad; gradients through a graph are not supported");
    const Memory& memory = memory_of(output.stand_in);
    // Outputs that share memory are parts of one tensor again.
    graph_.outputs.push_back(
        memory.writes == 0
            ? output.value
            : add_part(memory.roots[0].value, memory.roots[0].stand_in, output.stand_in));
  }
  return std::move(graph_);
}

}  // namespace tensora::jit
