#include "tensora/backend/cuda/runtime/graph.h"

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "tensora/backend/cuda/memory/allocator.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/fork.h"
#include "tensora/backend/cuda/runtime/graph_random.h"
#include "tensora/backend/cuda/runtime/order.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/base/check.h"
#include "tensora/core/deferred.h"
#include "tensora/core/random.h"
#include "tensora/core/thread_state.h"

// Note [Capture]
// While a thread records, its current stream is one of the graph's own, in CUDA's capture mode:
// what is queued there becomes a node of the graph and does not run. Three things follow.
//   Memory: a recorded kernel writes to the same addresses at each replay, so these must serve
//   nothing else. Blocks come from a pool of the graph; freed ones are used again only within the
//   recording, where stream order makes that safe, and go to the stream's ordinary pool when the
//   graph is destroyed and its last replay has finished.
//   Waiting: nothing runs, so waiting for a result would never end. refuse_capture() guards every
//   place where the host waits or reads, and names it.
//   Everything else of ours (dispatch, autograd, allocation) happens once, while recording; a
//   replay is one call of CUDA.

namespace tensora::cuda {
namespace {

thread_local constinit Capture* this_capture = nullptr;

uint64_t next_graph_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Capture* current_capture() noexcept { return this_capture; }
void set_current_capture(Capture* capture) noexcept { this_capture = capture; }

void refuse_capture(std::string_view what) {
  check(
      !this_capture, "Graph::capture: ", what,
      " cannot be part of a graph: the host would need a result that exists only during a replay, "
      "or memory that is freed by then; do it before or after the capture");
}

struct Graph::Recorded {
  explicit Recorded(Device where) : device(where), stream(where) {}
  ~Recorded() { forget(); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  cudaStream_t own_stream() const { return static_cast<cudaStream_t>(stream.handle()); }
  CachingAllocator& memory() const { return caching_allocator(device.index); }
  void begin(Capture& capture);
  cudaGraph_t end(Capture& capture);
  void instantiate(cudaGraph_t graph);
  void forget() noexcept;

  Device device;
  Stream stream;
  uint64_t id = next_graph_id();
  cudaGraphExec_t executable = nullptr;
  size_t nodes = 0;
  cudaStream_t last_replay = nullptr;
  bool replayed = false;
  uint64_t random_counters = 0;  // that one replay uses up
  ReplayRandom* random = nullptr;
};

void Graph::Recorded::begin(Capture& capture) {
  const DeviceGuard guard(device.index);
  // Allocated before recording, so not in the graph's pool: it is freed by forget().
  if (!random) random = static_cast<ReplayRandom*>(memory().allocate(sizeof(ReplayRandom)));
  capture.device = device.index;
  capture.graph = id;
  capture.random = random;
  capture.random_start = current_generator().state();
  check_cuda(cudaStreamBeginCapture(own_stream(), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  set_current_capture(&capture);
}

// Null if CUDA abandoned the capture.
cudaGraph_t Graph::Recorded::end(Capture& capture) {
  const DeviceGuard guard(device.index);
  set_current_capture(nullptr);
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(own_stream(), &graph) != cudaSuccess) {
    cudaGetLastError();
    graph = nullptr;
  }
  // Nothing was drawn yet: each replay will draw.
  random_counters = current_generator().state().offset - capture.random_start.offset;
  current_generator().set_state(capture.random_start);
  if (!capture.draws_random) random_counters = 0;
  memory().finish_frees(capture.freed_while_used);
  return graph;
}

void Graph::Recorded::instantiate(cudaGraph_t graph) {
  const DeviceGuard guard(device.index);
  cudaGraphGetNodes(graph, nullptr, &nodes);
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (status != cudaSuccess) {
    executable = nullptr;
    forget();
    fail_cuda(status, "cudaGraphInstantiate");
  }
}

// The graph's memory may be reused once the last replay, which may still be running, is
// over: its streams are made to wait for that.
void Graph::Recorded::forget() noexcept {
  if (is_forked()) return;
  const DeviceGuard guard(device.index);
  try {
    if (replayed) {
      const DeviceStream last{device.index, last_replay};
      order_streams(last, {device.index, own_stream()});
      for (cudaStream_t other : memory().streams_of_graph(id))
        order_streams(last, {device.index, other});
    }
    memory().release_graph(id);
    memory().free(random, sizeof(ReplayRandom));
  } catch (const std::exception&) {
    // The device is lost; so is its memory.
  }
  if (executable) cudaGraphExecDestroy(executable);  // takes effect when it no longer runs
  executable = nullptr;
  random = nullptr;
  replayed = false;
}

/// The state of the thread that records.
struct Graph::Recording {
  explicit Recording(const Stream& stream)
      // Casts that autocast keeps were made outside, and a replay would not renew them.
      : on(stream), autocast_scopes(std::exchange(thread_state.autocast_scopes, 0)) {}
  ~Recording() { thread_state.autocast_scopes = autocast_scopes; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  StreamGuard on;
  Capture capture;
  uint32_t autocast_scopes;
};

Graph::Graph(Device device) : recorded_(std::make_unique<Recorded>(device)) {}
Graph::~Graph() { abandon(); }
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(recorded_, other.recorded_);
  std::swap(recording_, other.recording_);
  return *this;
}

bool Graph::is_recorded() const { return recorded_->executable != nullptr; }
size_t Graph::node_count() const { return recorded_->nodes; }
Device Graph::device() const { return recorded_->device; }

void Graph::begin() {
  check(!is_recorded(), "Graph::capture: this graph is recorded already; create another one");
  check(!this_capture, "Graph::capture: this thread is recording a graph already");
  require_not_forked();
  flush_deferred();
  auto recording = std::make_unique<Recording>(recorded_->stream);
  recorded_->begin(recording->capture);
  recording_ = std::move(recording);
}

void Graph::abandon() noexcept {
  if (!recording_) return;
  try {
    if (const cudaGraph_t graph = recorded_->end(recording_->capture)) cudaGraphDestroy(graph);
  } catch (const std::exception&) {
    // The device is lost; so is what was recorded.
  }
  recorded_->forget();
  recording_.reset();
}

void Graph::end() {
  check(recording_ != nullptr, "Graph::end: no recording has begun");
  check(this_capture == &recording_->capture,
        "Graph::end: another thread began the recording; end it there");
  flush_deferred();
  const cudaGraph_t graph = recorded_->end(recording_->capture);
  recording_.reset();
  if (!graph) {
    recorded_->forget();
    fail(
        "Graph::capture: CUDA abandoned the capture: the body bypassed Tensora to use the device, "
        "or left work on a second stream that the first does not wait for; last ops launched: ",
        recent_launches());
  }
  recorded_->instantiate(graph);
}

void Graph::capture(const std::function<void()>& body) {
  begin();
  try {
    body();
  } catch (...) {
    abandon();
    throw;
  }
  end();
}

void Graph::replay() {
  Recorded& recorded = *recorded_;
  check(is_recorded(), "Graph::replay: nothing is recorded");
  refuse_capture("Graph::replay");
  const int device = recorded.device.index;
  use_device(device);
  const cudaStream_t stream = current_stream(device);
  // Two replays of one graph never overlap: they write to the same memory.
  if (recorded.replayed) order_streams({device, recorded.last_replay}, {device, stream});
  if (recorded.random_counters > 0) {
    const PhiloxState start = current_generator().reserve(recorded.random_counters);
    set_replay_random(device, recorded.random, {start.seed, start.offset});
  }
  note_launch("Graph::replay");
  check_cuda(cudaGraphLaunch(recorded.executable, stream), "cudaGraphLaunch");
  recorded.last_replay = stream;
  recorded.replayed = true;
  after_launch("Graph::replay", device);
}

}  // namespace tensora::cuda
