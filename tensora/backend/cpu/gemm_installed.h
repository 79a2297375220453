#pragma once

// The installed libraries of matrix products, opened at the first call. Internal.

#include <cstdint>
#include <string>

namespace tensora::cpu {

/// OpenBLAS, in a build that several threads may call at once.
struct OpenBlas {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*,
                         int, double, double*, int);
  Sgemm sgemm = nullptr;  // null, as dgemm, where it is not used
  Dgemm dgemm = nullptr;
  std::string version;  // "OpenBLAS 0.3.21"
  std::string refusal;  // why it is not used
};
const OpenBlas& openblas();
/// A function of that library by its name; null where it has none, or is not used.
void* openblas_function(const char* name);

/// While it lives, OpenBLAS runs only on the threads that call it. Its number of threads is a
/// setting of the whole process: the first scope saves what the program had set, the last one
/// restores it.
class OpenBlasOnThisThread {
 public:
  OpenBlasOnThisThread();
  ~OpenBlasOnThisThread();
  OpenBlasOnThisThread(const OpenBlasOnThisThread&) = delete;
  OpenBlasOnThisThread& operator=(const OpenBlasOnThisThread&) = delete;
};

struct OneDnn {
  using Sgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                        const float*, int64_t, float, float*, int64_t);
  Sgemm sgemm = nullptr;
  void* library = nullptr;  // for further functions; RTLD_DEFAULT is null too
  std::string version;
  std::string refusal;
  bool has_primitives = false;  // convolutions and their kin may be used, whatever sgemm is
};
const OneDnn& onednn();

/// The same for oneDNN, which uses OpenMP's setting; that belongs to the calling thread.
class OneDnnOnThisThread {
 public:
  OneDnnOnThisThread();
  ~OneDnnOnThisThread();
  OneDnnOnThisThread(const OneDnnOnThisThread&) = delete;
  OneDnnOnThisThread& operator=(const OneDnnOnThisThread&) = delete;

 private:
  int previous_;
};

}  // namespace tensora::cpu
