#pragma once

namespace tensora::cuda {

// Note [Wrong values on the device]
// A kernel cannot throw, and an out-of-bounds access would make the GPU unusable for the process.
// So kernels check every index that the user gave; an invalid one is skipped and recorded (a
// "note"), in memory that the host can read without involving the device. The next time the host
// waits for the device anyway (item, a copy to the host, synchronize), it finds the note and
// throws. Other invalid values (a probability of 2) are recorded in the same way. The first note
// stays until the host has read it.
struct Fault {
  const char* op;
  const char* sentence;  // what was expected, in the host's memory; null for an index
  long long index, limit;
  int dim;
  int state;  // of the note: 0 none, 1 being written, 2 complete
};

/// The note of a device.
Fault* device_fault(int device);
/// Throws if there is a note, and clears it. The device must have been waited for.
void throw_noted_fault(int device);

}  // namespace tensora::cuda
