#pragma once

#include <map>
#include <string>

#include "tensora/io/state.h"

namespace tensora::io {

/// The tensors of a safetensors file, in the order of its header, on the CPU. They are views of the
/// mapped file: nothing is read before it is used, and writing to them never reaches the file. The
/// whole header is checked before anything is allocated.
StateDict load_safetensors(const std::string& path);

/// The texts by name that a safetensors file carries beside its tensors.
using Metadata = std::map<std::string, std::string>;
Metadata safetensors_metadata(const std::string& path);

/// Writes the tensors, atomically. Tensors that share memory become independent ones in the file;
/// dtypes that the format does not have (complex128, quantized) are an error.
void save_safetensors(const StateDict& tensors, const std::string& path,
                      const Metadata& metadata = {});

}  // namespace tensora::io
