#pragma once

#include <string>
#include <vector>

namespace tensora {

/// What this library is and what it found on this machine; for bug reports and logs.
struct BuildInfo {
  /// A kind of device, how many of it there are, and why there is none.
  struct DeviceKind {
    std::string name;
    int count = 0;
    std::string unavailable_reason;
  };

  std::string version;            // "0.1.0"
  std::string compiler;           // "GCC 12.2.0"
  std::string instruction_set;    // of the CPU kernels in use: "avx512, amx"
  std::string matrix_libraries;   // in use for large products: "OpenBLAS, oneDNN"
  std::string missing_libraries;  // why others are not in use; empty if all are
  int threads = 0;
  std::vector<DeviceKind> devices;

  /// One line per entry.
  std::string to_string() const;
};

/// Opens the libraries and asks the devices, as their first use would.
BuildInfo build_info();

}  // namespace tensora
