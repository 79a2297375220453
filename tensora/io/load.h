#pragma once

#include <string>

#include "tensora/io/pytorch.h"

namespace tensora::io {

/// Loads a file of any format that Tensora reads (safetensors, PyTorch's, npz, npy), which is told
/// by its contents. Named tensors come as a dict (`to_state_dict` makes a StateDict of it), an npy
/// file as a tensor.
Value load(const std::string& path, const LoadOptions& options = {});

/// Saves in the format that the name's ending asks for: `.pt`, `.pth`, `.ckpt` and `.bin`
/// PyTorch's, which holds any Value; `.safetensors` and `.npz`, which hold dicts of tensors;
/// `.npy`, a tensor. The file is replaced atomically.
void save(const Value& value, const std::string& path);

}  // namespace tensora::io
