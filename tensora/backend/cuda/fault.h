#pragma once

namespace tensora::cuda {

// Note [Wrong indices on the device]
// A kernel cannot throw, and an access out of bounds would end the process's whole use of the GPU.
// So kernels that follow a user's indices check each one; a wrong one is not followed but noted, in
// memory that the host can read without asking the device. The next time the host waits for the
// device anyway (item, a copy to the host, synchronize), it finds the note and throws.
struct Fault {
  const char* op;
  long long index, limit;
  int dim;
  int is_set;
};

/// The note of a device.
Fault* device_fault(int device);
/// Throws if there is a note, and clears it. The device must have been waited for.
void throw_noted_fault(int device);

}  // namespace tensora::cuda
