#pragma once

#include <string>

#include "tensora/io/state.h"

namespace tensora::io {

struct LoadOptions {
  Device device = {};  // where the tensors go; on the CPU they are views of the mapped file
  bool verify = true;  // compares checksums, which reads the whole file
};

/// The contents of a `.pt` or `.pth` file that `torch.save` wrote (the zip format of PyTorch 1.6
/// and later). Tensors, numbers, texts and containers are loaded, and nothing else: a pickle that
/// asks for any other class or function is refused by its name, and none is ever called. Tensors
/// that shared memory share it again. Tuples and sets become lists.
Value load_pytorch(const std::string& path, const LoadOptions& options = {});

/// Writes a file that `torch.load(path, weights_only=True)` reads, atomically. Tensors that share
/// memory share it in the file; they are written as CPU tensors, so that any machine can read them.
void save_pytorch(const Value& value, const std::string& path);

}  // namespace tensora::io
