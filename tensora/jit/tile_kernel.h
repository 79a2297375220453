#pragma once

#include <memory>

#include "tensora/jit/tile_program.h"

namespace tensora::jit {

/// What a program runs on.
struct TileCall {
  Shape sizes;       // of the space
  int row_dims = 1;  // of a program of rows: how many of the last dims are the row
  /// Inputs broadcast to `sizes` in the usual way; those with one element per row have size 1 (or
  /// no dim) where the row is.
  std::span<const View* const> inputs;
  /// Results have all dims of `sizes`, with size 1 where the row is if there is one element per
  /// row. They may be an input's memory if that has the same strides, and otherwise overlap
  /// nothing.
  std::span<const View* const> results;
  /// One per step of the program, of a `number` step a Scalar; null: the program's own.
  std::span<const void* const> attrs = {};
};

/// A program made ready for a kind of device: code, or a plan of the CPU's engine.
class TileKernel {
 public:
  virtual ~TileKernel() = default;
  /// Inputs, results and attributes are those of the canonical program, none missing.
  virtual void launch(const TileCall& call, Device device) const = 0;
  /// Several calls, none of which writes what another one reads or writes.
  virtual void launch_list(std::span<const TileCall> calls, Device device) const {
    for (const TileCall& call : calls) launch(call, device);
  }
  /// What it became: the CPU's stages, or CUDA's text.
  virtual std::string describe() const = 0;
};

/// A program and its kernel. Copies share both.
class PreparedTile {
 public:
  void launch(const TileCall& call) const;
  /// Runs calls of programs that share this one's kernel; none of the calls depends on another.
  static void launch_list(std::span<const std::pair<const PreparedTile*, TileCall>> calls);
  bool shares_kernel(const PreparedTile& other) const { return kernel_ == other.kernel_; }
  const TileProgram& program() const { return *program_; }
  std::string describe() const { return kernel_->describe(); }

 private:
  /// A call as the kernel takes it.
  struct Ordered {
    SmallVector<const View*, 8> inputs;
    SmallVector<const void*, 16> attrs;
    TileCall call;
  };
  void order(const TileCall& call, Ordered& ordered) const;
  friend PreparedTile prepare(const TileProgram& program, Device device);
  std::shared_ptr<const TileProgram> program_;
  std::shared_ptr<const TileKernel> kernel_;  // of the canonical program
  std::vector<int> inputs_, steps_;           // where the canonical ones came from
  Device device_;
};

/// Finds or makes the kernel of a program; equal programs share it, in all threads. Throws if the
/// program cannot run on that device (see why_not).
PreparedTile prepare(const TileProgram& program, Device device);
/// Why a program cannot be prepared for a device; empty if it can.
std::string why_not(const TileProgram& program, Device device);

/// Runs the program op by op: what every kernel is tested against, and what runs where a kernel
/// cannot.
void interpret(const TileProgram& program, const TileCall& call, Device device = {});

/// A device's library names its own functions when it is opened. They get canonical programs.
struct TileBackend {
  std::string (*why_not)(const TileProgram& program) = nullptr;
  std::shared_ptr<const TileKernel> (*make)(const TileProgram& program, Device device) = nullptr;
};
void set_tile_backend(DeviceType device, TileBackend backend);

/// The CPU's.
TileBackend cpu_tile_backend();

}  // namespace tensora::jit
