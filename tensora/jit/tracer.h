#pragma once

// Internal header

#include <unordered_map>

#include "tensora/dispatch/interceptor.h"
#include "tensora/jit/graph.h"

namespace tensora::jit {

/// Defers all ops of a thread into a graph. See Note [Tracing without data] in trace.cpp and Note
/// [Writes as values] in tracer.cpp.
class Tracer final : public Interceptor {
 public:
  /// With `keeps_views`, as trace_views() describes.
  explicit Tracer(bool keeps_views) : keeps_views_(keeps_views) {}
  ~Tracer() override;

  /// What the function gets in place of an input.
  Tensor add_input(const Tensor& tensor);
  /// Completes the graph of a function that returned `outputs`.
  Graph finish(std::span<const Tensor> outputs);

  Tensors intercept(const Call& call) override;
  void before_read(const Tensor& tensor) override;

 private:
  /// What is known of a tensor that occurred.
  struct Known {
    Tensor stand_in;  // the tensor itself, unless it was captured
    int value = -1;   // its contents after `seen` writes to its memory
    uint64_t seen = 0;
  };
  /// A tensor of which all others in its storage are views.
  struct Root {
    Tensor stand_in;
    int value = -1;   // its contents now
    int origin = -1;  // the input or captured tensor that it is; -1 if it was made here
  };
  /// A storage, and what was written to it. Several roots are inputs, or captured tensors, that
  /// share it; the first write needs one that contains the others.
  struct Memory {
    std::vector<Root> roots;
    uint64_t writes = 0;
  };

  int add_value(const Shape& sizes, const Strides& strides, DType dtype, Device device);
  int add_value(const Tensor& like);
  int add_part(int base_value, const Tensor& base, const Tensor& part);
  void add_root(const Tensor& stand_in, int value, int origin);
  Tensor make_stand_in(const Tensor& like, const IntrusivePtr<Storage>& storage);
  Tensor kept(Tensor stand_in, Device device);
  Memory& memory_of(const Tensor& stand_in) { return memories_.at(stand_in.impl().storage.get()); }

  Known& known(const Tensor& tensor);
  Known& capture(const Tensor& tensor);
  int read(Known& known);
  void write(std::string_view op, Known& target, int result);
  Root& sole_root(std::string_view op, Memory& memory);
  GraphNode node_of(const Call& call, const Infer& infer, std::span<Known* const> inputs);
  Tensors run_op(const Call& call);
  Tensors run_view(const Call& call, const Infer& infer, Known& input);
  Tensors run_inplace(const Call& call);
  Tensors run_definition(const Call& call);
  std::string described(int value) const;

  bool keeps_views_;
  Graph graph_;
  std::unordered_map<const TensorImpl*, Known> known_;
  std::unordered_map<const Storage*, Memory> memories_;
  std::vector<const Storage*> written_;  // in the order of their first write
  // The storages of inputs and of captured tensors, each with its stand-in. They are kept apart
  // even where they are one: another call's inputs will not share the captured tensors' memory.
  std::unordered_map<const Storage*, IntrusivePtr<Storage>> input_storages_, captured_storages_;
  // Kept alive, so that no address is reused during the trace.
  std::vector<Tensor> stand_ins_, captured_;
};

}  // namespace tensora::jit
