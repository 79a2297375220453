#pragma once

#include <cstdint>

// The structures of DLPack, the common memory format of array libraries
// (https://dmlc.github.io/dlpack): version 1, and the older one without a version.

namespace tensora::python::dlpack {

struct Device {
  int32_t type;  // 1: CPU, 2: CUDA, 3: pinned host memory
  int32_t id;
};
struct DataType {
  uint8_t code;  // 0: int, 1: uint, 2: float, 4: bfloat, 5: complex, 6: bool
  uint8_t bits;
  uint16_t lanes;
};
struct Array {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // null: row-major
  uint64_t byte_offset;
};
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;  // 1: read only, 2: copied
  Array array;
};
inline constexpr const char* kName = "dltensor";
inline constexpr const char* kUsedName = "used_dltensor";
inline constexpr const char* kVersionedName = "dltensor_versioned";
inline constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

}  // namespace tensora::python::dlpack
