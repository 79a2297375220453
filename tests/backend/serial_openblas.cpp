// A program that is linked to an OpenBLAS without threads: Tensora refuses that library, says why,
// and multiplies by itself. The functions below stand for the library; they are exported, as those
// of a linked library are.
#include <atomic>
#include <cstdio>

#include "tensora/backend/cpu/gemm_library.h"
#include "tensora/tensora.h"

namespace {
std::atomic<int> calls = 0;
}

extern "C" {
int openblas_get_parallel() { return 0; }
const char* openblas_get_config() { return "OpenBLAS 0.3.21 SINGLE_THREADED"; }
void openblas_set_num_threads(int) { ++calls; }
int openblas_get_num_threads() { return 1; }
void cblas_sgemm() { ++calls; }
void cblas_dgemm() { ++calls; }
}

int main() {
  using namespace tensora;
  const Tensor a = ones({300, 200}, {.dtype = kFloat64}), product = matmul(a, a.t());
  const bool right = product.sum().item<double>() == 300. * 300 * 200;
  const std::string used = cpu::gemm_libraries(), refused = cpu::refused_gemm_libraries();
  std::printf("in use: %s\nrefused: %s\n", used.c_str(), refused.c_str());
  const bool told = used.find("OpenBLAS") == std::string::npos &&
                    refused.find("built without threads") != std::string::npos;
  bool asked = false;
  try {
    cpu::set_gemm_libraries(cpu::GemmLibraries::openblas);
  } catch (const Error& error) {
    asked = std::string(error.what()).find("OpenBLAS was asked for and cannot be used") == 14;
    std::printf("%s\n", error.what());
  }
  return right && told && asked && calls == 0 ? 0 : 1;
}
