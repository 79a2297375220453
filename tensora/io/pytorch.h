#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensora/io/state.h"

namespace tensora::io {

struct LoadOptions {
  Device device = {};  // where the tensors go; on the CPU they are views of the mapped file
  bool verify = true;  // compares checksums, which reads the whole file
  bool copy = false;   // copies tensors on the CPU too: the file may change or go afterwards
  std::vector<Tensor>* parameters = nullptr;  // receives the tensors that were an nn.Parameter
};

/// The contents of a `.pt` or `.pth` file that `torch.save` wrote: the zip format of PyTorch 1.6
/// and later, or the one before it. Tensors, numbers, texts and containers are loaded, and nothing
/// else: a pickle that asks for any other class or function is refused by its name, and none is
/// ever called. Tensors that shared memory share it again. Tuples and sets become lists. A program
/// of TorchScript, or a module that LibTorch wrote, gives a dict of its parameters and buffers.
Value load_pytorch(const std::string& path, const LoadOptions& options = {});

/// Writes a file that `torch.load(path, weights_only=True)` reads, atomically. Tensors that share
/// memory share it in the file; they are written as CPU tensors, so that any machine can read them.
/// Those that are `parameters` become an nn.Parameter when Python loads the file.
void save_pytorch(const Value& value, const std::string& path,
                  std::span<const Tensor> parameters = {});

}  // namespace tensora::io
