#pragma once

// Kernels that a user writes in CUDA C++: compiled by NVRTC when they are first called, and kept in
// the kernel store like the library's own.

#include <array>
#include <cstring>
#include <variant>

#include "tensora/core/tensor.h"

namespace tensora::jit {

struct CudaExtent {
  unsigned x = 1, y = 1, z = 1;
};

/// How many blocks run, and how many threads each has.
struct CudaGrid {
  CudaExtent blocks, threads;
  unsigned shared_bytes = 0;  // of dynamic shared memory
};

/// An argument: a tensor, whose address is passed, or a number of the parameter's own type.
class CudaArgument {
 public:
  CudaArgument(const Tensor& tensor) : value_(tensor) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  CudaArgument(T number) : value_(Bytes{}) {
    std::memcpy(std::get<Bytes>(value_).data(), &number, sizeof number);
  }
  const Tensor* tensor() const { return std::get_if<Tensor>(&value_); }
  /// The bytes of the number.
  const void* number() const { return std::get<Bytes>(value_).data(); }

 private:
  using Bytes = std::array<unsigned char, 8>;
  std::variant<Tensor, Bytes> value_;
};

/// A kernel in CUDA C++. The source declares it `extern "C" __global__ void name(…)`; it may
/// include the embedded headers of the library ("tensora/base/half.h", …) and nothing else.
class CudaKernel {
 public:
  CudaKernel(std::string source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {}

  /// Queues the kernel on the current stream of the tensors' device. Types of numbers must be those
  /// of the parameters: they are not converted. Nothing is recorded for gradients.
  template <class... Args>
  void operator()(const CudaGrid& grid, const Args&... args) const {
    const CudaArgument list[] = {CudaArgument(args)...};
    run(grid, list);
  }
  void run(const CudaGrid& grid, std::span<const CudaArgument> args) const;
  const std::string& name() const { return name_; }

 private:
  std::string source_, name_;
};

inline CudaKernel cuda_kernel(std::string source, std::string name) {
  return {std::move(source), std::move(name)};
}

/// The CUDA library names its own function when it is opened. `args` are the addresses of the
/// parameters.
using CudaLauncher = void (*)(const std::string& source, const std::string& name,
                              const CudaGrid& grid, std::span<void* const> args, Device device);
void set_cuda_launcher(CudaLauncher launcher);

}  // namespace tensora::jit
