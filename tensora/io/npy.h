#pragma once

#include <string>

#include "tensora/io/state.h"

namespace tensora::io {

/// The array of a NumPy `.npy` file (versions 1 to 3) as a view of the mapped file; writing to it
/// never reaches the file. Arrays in Fortran's order keep their strides, big-endian ones are
/// converted. Python objects, records and unsigned integers of more than 8 bits are an error.
Tensor load_npy(const std::string& path);

/// Writes the tensor, row-major, atomically. NumPy has no bfloat16 and no float8.
void save_npy(const Tensor& tensor, const std::string& path);

/// The arrays of a NumPy `.npz` archive, stored or deflated, by name.
StateDict load_npz(const std::string& path);

struct NpzOptions {
  bool compressed = false;  // numpy.savez_compressed instead of numpy.savez
};
void save_npz(const StateDict& tensors, const std::string& path, const NpzOptions& options = {});

}  // namespace tensora::io
