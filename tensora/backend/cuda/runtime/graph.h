#pragma once

// CUDA graphs: a sequence of GPU work that is recorded once and started as a whole. No CUDA header
// is needed.

#include <cstddef>
#include <functional>
#include <memory>

#include "tensora/core/device.h"

namespace tensora::cuda {

/// Small networks spend more time in launching kernels than in running them. A graph launches them
/// all at once:
///
///   cuda::Graph graph;
///   graph.capture([&] { y = model(x); });
///   for (...) { x.copy_(batch); graph.replay(); use(y); }
///
/// The recorded kernels read and write fixed addresses. Tensors made while recording live in memory
/// that stays reserved as long as the graph does; `y` above therefore holds the result of the
/// latest replay. Tensors made before, like `x`, must be kept alive by the caller. Numbers that the
/// host passes with a launch (a learning rate, `x + 2`) are recorded as they are. Random ops draw
/// new numbers at each replay, the same ones as without a graph. A graph is used by one thread at a
/// time.
class Graph {
 public:
  explicit Graph(Device device = DeviceType::cuda);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Calls `body` and records what this thread queues on the device instead of running it. What
  /// needs a result on the host (item, cpu, nonzero, synchronize) and copies from the host cannot
  /// be recorded and throw; like any exception of `body` that ends the recording, and the graph can
  /// record again. Run `body` once before, so that caches and libraries are ready.
  void capture(const std::function<void()>& body);
  /// The same in two steps, for callers whose body is no function: `end` makes the graph of what
  /// this thread queued since `begin`, and `abandon` forgets it.
  void begin();
  void end();
  void abandon() noexcept;
  /// Queues the recorded work on the thread's current stream.
  void replay();

  bool is_recorded() const;
  /// Kernels, copies and fills of the graph.
  size_t node_count() const;
  Device device() const;

 private:
  struct Recorded;
  struct Recording;
  std::unique_ptr<Recorded> recorded_;
  std::unique_ptr<Recording> recording_;  // between begin and end
};

}  // namespace tensora::cuda
