#pragma once

// A small builder over cuDNN's graph interface: tensors, the ops between them, and a plan that runs
// the whole on given addresses.
//
//   Graph graph("conv2d");
//   const TensorId x = graph.tensor({.dtype = …, .sizes = …, .strides = …}), …;
//   Descriptor& op = graph.add_operation(Kind::convolution_forward);
//   op.set(Attribute::forward_x, graph.descriptor(x));
//   …
//   const std::vector<Plan> plans = graph.plans(device, {});
//   plans.front().run("conv2d", device, {{{x, address}, …}});

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "tensora/backend/cuda/cudnn/library.h"
#include "tensora/core/dtype.h"
#include "tensora/core/shape.h"

namespace tensora::cuda::cudnn {

/// cuDNN's name for a dtype; throws, naming `op`, where there is none.
DataType data_type(DType dtype, std::string_view op);

/// One of cuDNN's descriptors: attributes are set, then it is finalized and used by others.
class Descriptor {
 public:
  Descriptor(Kind kind, std::string_view op);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  void set(Attribute attribute, ValueType type, int64_t count, const void* values);
  void set(Attribute attribute, bool value);
  void set(Attribute attribute, int64_t value);
  void set(Attribute attribute, float value);
  void set(Attribute attribute, double value);
  void set(Attribute attribute, DataType value);
  void set(Attribute attribute, ConvolutionMode value);
  void set(Attribute attribute, HeuristicMode value);
  void set(Attribute attribute, PointwiseMode value);
  void set(Attribute attribute, ReductionOperator value);
  void set(Attribute attribute, RngDistribution value);
  void set(Attribute attribute, std::span<const int64_t> values);
  void set(Attribute attribute, const Descriptor& value);

  /// Reads up to `most` values; returns how many there are.
  int64_t get(Attribute attribute, ValueType type, int64_t most, void* values) const;

  void finalize();
  /// For what cuDNN may refuse: false if it does.
  bool try_finalize();

  RawDescriptor raw() const { return raw_; }
  std::string_view op() const { return op_; }

 private:
  RawDescriptor raw_ = nullptr;
  std::string_view op_;
};

using TensorId = int64_t;

struct TensorSpec {
  DataType dtype = DataType::float32;
  Shape sizes;
  Strides strides;
  int64_t alignment = 16;   // of the address, in bytes
  bool is_virtual = false;  // only lives between two ops
  bool by_value = false;    // the address is the host's
};

/// An address for a tensor of a graph.
struct Binding {
  TensorId tensor = 0;
  void* data = nullptr;
};

/// Which engines may run a graph.
struct EngineRules {
  bool deterministic = false;
  bool tensor_cores = true;   // float32 without TF32 sets this to false
  bool down_convert = false;  // inputs may be rounded to a narrower type
  /// Plans that need more are not made.
  size_t most_workspace = SIZE_MAX;
};

/// A graph made executable by one engine. For one thread at a time.
class Plan {
 public:
  size_t workspace_bytes() const { return workspace_bytes_; }
  /// Queues the graph on the thread's current stream; the workspace is scratch memory.
  void run(std::string_view op, int device, std::span<const Binding> bindings) const;
  /// The same without an exception, with memory of the caller's as workspace.
  Status try_run(int device, std::string_view op, std::span<const Binding> bindings,
                 void* workspace) const;

 private:
  friend class Graph;
  Plan(Descriptor config, Descriptor plan, size_t bytes)
      : config_(std::move(config)), plan_(std::move(plan)), workspace_bytes_(bytes) {}

  Descriptor config_, plan_;
  size_t workspace_bytes_ = 0;
};

class Graph {
 public:
  /// `op` is named in errors and must outlive the graph and its plans.
  explicit Graph(std::string_view op) : op_(op) {}

  /// Ids count from 1.
  TensorId tensor(const TensorSpec& spec);
  const Descriptor& descriptor(TensorId id) const { return tensors_[static_cast<size_t>(id - 1)]; }
  /// An operation; its attributes are set by the caller, and it is finalized when the graph is
  /// built.
  Descriptor& add_operation(Kind kind);
  /// What an operation refers to (how a convolution is done, say). The caller finalizes it before
  /// an operation gets it.
  Descriptor& add_settings(Kind kind);

  /// The plan that cuDNN recommends; none if it cannot run the graph. With more than one, up to
  /// `most` of each of its three lists, some of them twice.
  std::vector<Plan> plans(int device, const EngineRules& rules, size_t most = 1);

 private:
  std::vector<Plan> plans_of_mode(int device, const Descriptor& graph, HeuristicMode mode,
                                  const EngineRules& rules, size_t most) const;

  std::string_view op_;
  std::deque<Descriptor> tensors_, settings_, operations_;  // addresses stay valid
};

/// The index of the fastest plan, each run several times on `bindings`; plans that fail are passed
/// over. Waits for the device.
size_t fastest_plan(std::string_view op, int device, std::span<const Plan> plans,
                    std::span<const Binding> bindings);

}  // namespace tensora::cuda::cudnn
