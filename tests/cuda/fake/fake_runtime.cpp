#include "tests/cuda/fake/fake_runtime.h"

#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

// NOLINTBEGIN: the names and signatures are CUDA's.

struct CUstream_st {
  bool capturing = false;
  bool invalid = false;  // something forbidden was done while recording
  size_t nodes = 0;
};
struct CUevent_st {
  bool reached = true;
};
struct CUgraph_st {
  size_t nodes;
};
struct CUgraphExec_st {
  size_t nodes;
};

namespace tensora::test {

FakeCuda fake;

namespace {

int number_from(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

// So that a whole program can be run on a machine that lacks something.
const bool configured = [] {
  fake.driver = number_from("FAKE_CUDA_DRIVER", fake.driver);
  fake.devices = number_from("FAKE_CUDA_DEVICES", fake.devices);
  return true;
}();

struct Allocation {
  size_t bytes;
  int device;
};
std::map<void*, Allocation>& allocations() {
  static auto* all = new std::map<void*, Allocation>;
  return *all;
}

thread_local CUstream_st* recording = nullptr;
thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
thread_local int device = 0;

// What CUDA does not allow between begin and end of a recording, unless the thread relaxed it.
bool forbidden_now() {
  if (!recording || mode == cudaStreamCaptureModeRelaxed) return false;
  recording->invalid = true;
  return true;
}

cudaError_t queue_on(cudaStream_t stream) {
  if (stream && stream->capturing)
    ++stream->nodes;
  else
    fake.last_stream = stream;
  return cudaSuccess;
}

cudaError_t wait(cudaStream_t stream) {
  if (stream && stream->capturing) {
    stream->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (forbidden_now()) return cudaErrorStreamCaptureUnsupported;
  ++fake.waits;
  return fake.fault;
}

}  // namespace
}  // namespace tensora::test

using namespace tensora::test;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake.driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake.devices;
  return fake.devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  device = index;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "fake");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = fake.memory;
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "fakeError"; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                          : "a fake error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMalloc(void** address, size_t bytes) {
  if (forbidden_now()) return cudaErrorStreamCaptureUnsupported;
  if (fake.used[device] + bytes > fake.memory) return cudaErrorMemoryAllocation;
  *address = std::aligned_alloc(512, bytes);
  allocations()[*address] = {bytes, device};
  fake.used[device] += bytes;
  ++fake.mallocs;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  if (forbidden_now()) return cudaErrorStreamCaptureUnsupported;
  const Allocation& freed = allocations().at(address);
  fake.used[freed.device] -= freed.bytes;
  allocations().erase(address);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  if (forbidden_now()) return cudaErrorStreamCaptureUnsupported;
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *free_bytes = fake.memory - fake.used[device];
  *total = fake.memory;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (!stream || !stream->capturing) std::memcpy(to, from, bytes);
  return queue_on(stream);
}
cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  if (!stream || !stream->capturing) std::memset(address, value, bytes);
  return queue_on(stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  std::memcpy(to, from, bytes);
  return queue_on(stream);
}

cudaError_t cudaDeviceCanAccessPeer(int* possible, int, int) {
  *possible = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  ++fake.peers_enabled;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait(stream); }
cudaError_t cudaStreamQuery(cudaStream_t) { return fake.busy ? cudaErrorNotReady : fake.fault; }
cudaError_t cudaDeviceSynchronize() { return wait(nullptr); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  ++fake.stream_waits;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (!event) return cudaErrorInvalidResourceHandle;
  event->reached = !fake.busy;
  ++fake.events_recorded;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event) return cudaErrorInvalidResourceHandle;
  if (forbidden_now()) return cudaErrorStreamCaptureUnsupported;
  return event->reached || !fake.busy ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event) return cudaErrorInvalidResourceHandle;
  event->reached = true;
  return wait(nullptr);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode wanted) {
  if (!stream) return cudaErrorStreamCaptureUnsupported;
  *stream = {.capturing = true};
  recording = stream;
  mode = wanted;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  stream->capturing = false;
  recording = nullptr;
  mode = cudaStreamCaptureModeGlobal;
  if (stream->invalid) return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st{stream->nodes};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      stream && stream->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* exchanged) {
  std::swap(mode, *exchanged);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->nodes;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t stream) {
  ++fake.graph_launches;
  return queue_on(stream);
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t stream) {
  ++fake.launches;
  return fake.next_launch == cudaSuccess ? queue_on(stream)
                                         : std::exchange(fake.next_launch, cudaSuccess);
}
CUresult fake_cuLaunchKernel(CUfunction kernel, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, CUstream stream, void** args, void**) {
  return static_cast<CUresult>(cudaLaunchKernel(kernel, dim3(), dim3(), args, 0, stream));
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(name, "cuLaunchKernel") == 0;
  *address = known ? reinterpret_cast<void*>(fake_cuLaunchKernel) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  *function = static_cast<cudaFunction_t>(const_cast<void*>(symbol));
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return cudaErrorNotSupported;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) {
  return cudaErrorNotSupported;
}

// What nvcc's code calls to make its kernels known.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void*) {
  *kernel = nullptr;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(nullptr, grid, block, args, shared, stream);
}
char __cudaInitModule(void**) { return 0; }  // named by stubs that are not optimised
unsigned __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return 0; }

}  // extern "C"

// NOLINTEND
