// The CPU matrix product beside OpenBLAS, BLIS and oneDNN.
//
// Checks every library against a naive product in double, then times them interleaved (one call of
// each in turn, so that all run at the same clock and machine load) and prints medians.
// The libraries are loaded at run time, each with the threads it would use itself; a missing one
// leaves its column empty.
//
//   gemm_workbench [--quick] [--json FILE] [--threads N] [--shape TEXT]

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tensora/backend/cpu/gemm.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/base/thread_pool.h"

namespace {

using tensora::cpu::Gemm;

struct Shape {
  int64_t batch, m, n, k;
};

struct Layout {
  const char* name;
  bool a_transposed, b_transposed;
};

struct Problem {
  Shape shape;
  Layout layout;
  const float* a;
  const float* b;
  float* out;

  int64_t a_stride() const { return layout.a_transposed ? shape.m : shape.k; }
  int64_t b_stride() const { return layout.b_transposed ? shape.k : shape.n; }
};

constexpr Layout kLayouts[] = {{"NN", false, false}, {"NT", false, true}, {"TN", true, false}};

constexpr Shape kShapes[] = {
    {1, 64, 64, 64},       {1, 128, 128, 128},    {1, 256, 256, 256},   {1, 512, 512, 512},
    {1, 1024, 1024, 1024}, {1, 2048, 2048, 2048}, {1, 512, 2048, 2048}, {1, 8, 4096, 4096},
    {1, 1, 4096, 4096},    {64, 128, 128, 64},    {1, 64, 512, 784},    {1, 64, 4096, 4096},
};

class Library {
 public:
  virtual ~Library() = default;
  virtual const char* name() const = 0;
  virtual bool present() const = 0;
  virtual void multiply(const Problem& problem) const = 0;
};

class Ours final : public Library {
 public:
  const char* name() const override { return "tensora"; }
  bool present() const override { return true; }
  void multiply(const Problem& p) const override {
    const auto [batch, m, n, k] = p.shape;
    Gemm<float> g{.batch = batch, .m = m, .n = n, .k = k};
    g.a = {p.a, m * k, p.layout.a_transposed ? 1 : k, p.layout.a_transposed ? m : 1};
    g.b = {p.b, k * n, p.layout.b_transposed ? 1 : n, p.layout.b_transposed ? k : 1};
    g.out = {p.out, m * n, n, 1};
    tensora::cpu::gemm(g);
  }
};

template <class Function>
Function* symbol(void* handle, const char* name) {
  return handle == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle, name));
}

/// A library of its own: RTLD_DEEPBIND, because OpenBLAS and BLIS define the same names.
void* open_library(std::initializer_list<const char*> candidates) {
  for (const char* candidate : candidates) {
    if (void* handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) return handle;
  }
  return nullptr;
}

using CblasSgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                        float, float*, int);

/// A serial BLAS; with more threads the rows (or the batch) are shared out over our pool, which is
/// how a framework has to use it.
class Blas final : public Library {
 public:
  Blas(const char* name, void* handle)
      : name_(name), sgemm_(symbol<CblasSgemm>(handle, "cblas_sgemm")) {
    if (auto* set = symbol<void(int)>(handle, "openblas_set_num_threads")) set(1);
    if (auto* set = symbol<void(long)>(handle, "bli_thread_set_num_threads")) set(1);
  }
  const char* name() const override { return name_; }
  bool present() const override { return sgemm_ != nullptr; }
  void multiply(const Problem& p) const override {
    const auto [batch, m, n, k] = p.shape;
    if (batch > 1) {
      tensora::parallel_for(batch, 1, [&, m = m, n = n, k = k](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          part(p, p.a + i * m * k, p.b + i * k * n, p.out + i * m * n, m, n);
      });
      return;
    }
    const int64_t threads = tensora::get_num_threads();
    if (m >= n) {
      tensora::parallel_for(m, (m + threads - 1) / threads,
                            [&, n = n, k = k](int64_t begin, int64_t end) {
                              part(p, p.a + begin * (p.layout.a_transposed ? 1 : k), p.b,
                                   p.out + begin * n, end - begin, n);
                            });
    } else {
      tensora::parallel_for(n, (n + threads - 1) / threads,
                            [&, m = m, k = k](int64_t begin, int64_t end) {
                              part(p, p.a, p.b + begin * (p.layout.b_transposed ? k : 1),
                                   p.out + begin, m, end - begin);
                            });
    }
  }

 private:
  void part(const Problem& p, const float* a, const float* b, float* out, int64_t m,
            int64_t n) const {
    sgemm_(101, p.layout.a_transposed ? 112 : 111, p.layout.b_transposed ? 112 : 111,
           static_cast<int>(m), static_cast<int>(n), static_cast<int>(p.shape.k), 1.f, a,
           static_cast<int>(p.a_stride()), b, static_cast<int>(p.b_stride()), 0.f, out,
           static_cast<int>(p.shape.n));
  }
  const char* name_;
  CblasSgemm* sgemm_;
};

/// oneDNN with its own OpenMP threads.
class OneDnn final : public Library {
 public:
  OneDnn() {
    void* handle = open_library({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"});
    sgemm_ = symbol<Sgemm>(handle, "dnnl_sgemm");
    // libgomp came with it; its symbols are reached through the handle's dependencies.
    set_threads_ = symbol<void(int)>(handle, "omp_set_num_threads");
  }
  const char* name() const override { return "oneDNN"; }
  bool present() const override { return sgemm_ != nullptr && set_threads_ != nullptr; }
  void multiply(const Problem& p) const override {
    set_threads_(tensora::get_num_threads());
    const auto [batch, m, n, k] = p.shape;
    for (int64_t i = 0; i < batch; ++i) {
      sgemm_(p.layout.a_transposed ? 'T' : 'N', p.layout.b_transposed ? 'T' : 'N', m, n, k, 1.f,
             p.a + i * m * k, p.a_stride(), p.b + i * k * n, p.b_stride(), 0.f, p.out + i * m * n,
             n);
    }
  }

 private:
  using Sgemm = int(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                    const float*, int64_t, float, float*, int64_t);
  Sgemm* sgemm_ = nullptr;
  void (*set_threads_)(int) = nullptr;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Aligned as a tensor is.
struct AlignedFloats {
  explicit AlignedFloats(int64_t count)
      : data(static_cast<float*>(
            ::operator new(static_cast<size_t>(count) * sizeof(float), std::align_val_t{64}))),
        size(count) {}
  ~AlignedFloats() { ::operator delete(data, std::align_val_t{64}); }
  AlignedFloats(const AlignedFloats&) = delete;
  AlignedFloats& operator=(const AlignedFloats&) = delete;
  float* data;
  int64_t size;
};

struct Buffers {
  AlignedFloats a, b, out;
  explicit Buffers(const Shape& s)
      : a(s.batch * s.m * s.k), b(s.batch * s.k * s.n), out(s.batch * s.m * s.n) {
    uint32_t state = 1;
    for (auto* values : {&a, &b}) {
      for (int64_t i = 0; i < values->size; ++i) {
        state = state * 1664525u + 1013904223u;
        values->data[i] = static_cast<float>(state >> 16) / 65536.f - 0.5f;
      }
    }
  }
};

/// Largest error over a sample of the outputs.
double error_of(const Library& library, const Problem& p) {
  const auto [batch, m, n, k] = p.shape;
  std::fill(p.out, p.out + batch * m * n, NAN);
  library.multiply(p);
  double worst = 0;
  const int64_t total = batch * m * n;
  const int64_t step = std::max<int64_t>(1, total / 2003);
  for (int64_t index = 0; index < total; index += step) {
    const int64_t q = index / (m * n), i = index / n % m, j = index % n;
    double sum = 0;
    for (int64_t d = 0; d < k; ++d) {
      const float x = p.a[q * m * k + (p.layout.a_transposed ? d * m + i : i * k + d)];
      const float y = p.b[q * k * n + (p.layout.b_transposed ? j * k + d : d * n + j)];
      sum += static_cast<double>(x) * y;
    }
    const double error = std::abs(sum - p.out[index]);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

struct Row {
  int threads;
  Problem problem;
  std::vector<double> gflops;  // per library, 0 when absent
};

Row measure(const std::vector<std::unique_ptr<Library>>& libraries, const Problem& p,
            double budget) {
  std::vector<std::vector<double>> times(libraries.size());
  const double flops = 2.0 * static_cast<double>(p.shape.batch * p.shape.m * p.shape.n * p.shape.k);
  const int inner = std::max(1, static_cast<int>(40e-6 * 1e11 / flops));
  const double start = seconds_now();
  for (int round = 0; round < 7 || seconds_now() - start < budget; ++round) {
    for (size_t i = 0; i < libraries.size(); ++i) {
      if (!libraries[i]->present()) continue;
      // Lets the OpenMP threads of the one before stop spinning, then warms up.
      std::this_thread::sleep_for(
          std::chrono::milliseconds(tensora::get_num_threads() > 1 ? 4 : 0));
      for (int q = 0; q < inner; ++q) libraries[i]->multiply(p);
      const double begin = seconds_now();
      for (int q = 0; q < inner; ++q) libraries[i]->multiply(p);
      times[i].push_back((seconds_now() - begin) / inner);
    }
  }
  Row row{tensora::get_num_threads(), p, {}};
  for (auto& list : times) {
    if (list.empty()) {
      row.gflops.push_back(0);
      continue;
    }
    std::nth_element(list.begin(), list.begin() + static_cast<long>(list.size() / 2), list.end());
    row.gflops.push_back(flops / list[list.size() / 2] * 1e-9);
  }
  return row;
}

std::string shape_text(const Shape& s) {
  const std::string one =
      std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
  return s.batch == 1 ? one : std::to_string(s.batch) + "x(" + one + ")";
}

double ratio_to_best(const Row& row) {
  const double best = *std::max_element(row.gflops.begin() + 1, row.gflops.end());
  return best > 0 ? row.gflops[0] / best : 0;
}

void write_json(const std::string& path, const std::vector<Row>& rows,
                const std::vector<std::unique_ptr<Library>>& libraries) {
  FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "gemm_workbench: cannot write %s\n", path.c_str());
    return;
  }
  std::fprintf(file, "[");
  for (size_t r = 0; r < rows.size(); ++r) {
    std::fprintf(file, "%s\n  {\"threads\": %d, \"layout\": \"%s\", \"shape\": \"%s\"",
                 r == 0 ? "" : ",", rows[r].threads, rows[r].problem.layout.name,
                 shape_text(rows[r].problem.shape).c_str());
    for (size_t i = 0; i < libraries.size(); ++i) {
      std::fprintf(file, ", \"%s\": %.2f", libraries[i]->name(), rows[r].gflops[i]);
    }
    std::fprintf(file, ", \"ratio_to_best\": %.3f}", ratio_to_best(rows[r]));
  }
  std::fprintf(file, "\n]\n");
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::string json;
  std::string wanted;
  std::vector<int> thread_counts = {1, 2};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (argument == "--threads" && i + 1 < argc) {
      thread_counts = {std::atoi(argv[++i])};
    } else if (argument == "--shape" && i + 1 < argc) {
      wanted = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: gemm_workbench [--quick] [--json FILE] [--threads N] [--shape TEXT]\n");
      return 2;
    }
  }
  std::vector<std::unique_ptr<Library>> libraries;
  libraries.push_back(std::make_unique<Ours>());
  libraries.push_back(std::make_unique<Blas>("OpenBLAS", open_library({"libopenblas.so.0"})));
  libraries.push_back(std::make_unique<Blas>("BLIS", open_library({"libblis.so.4"})));
  libraries.push_back(std::make_unique<OneDnn>());

  std::printf("instruction set: %s; median GFLOP/s\n", name(tensora::cpu::cpu_isa()));
  std::printf("%-2s %-18s %-3s", "t", "m x n x k", "op");
  for (const auto& library : libraries) std::printf(" %9s", library->name());
  std::printf("   ratio to best\n");
  bool right = true;
  std::vector<Row> rows;
  for (const int threads : thread_counts) {
    tensora::set_num_threads(threads);
    for (const Shape& shape : kShapes) {
      for (const Layout& layout : kLayouts) {
        if (shape.batch > 1 && layout.a_transposed) continue;
        if (shape_text(shape).find(wanted) == std::string::npos) continue;
        Buffers buffers(shape);
        const Problem problem{shape, layout, buffers.a.data, buffers.b.data, buffers.out.data};
        for (const auto& library : libraries) {
          if (!library->present()) continue;
          const double error = error_of(*library, problem);
          if (!(error < 1e-5 * static_cast<double>(shape.k))) {
            std::printf("WRONG: %s, error %g\n", library->name(), error);
            right = false;
          }
        }
        rows.push_back(measure(libraries, problem, quick ? 0.1 : 1.0));
        std::printf("%-2d %-18s %-3s", threads, shape_text(shape).c_str(), layout.name);
        for (const double value : rows.back().gflops) std::printf(" %9.1f", value);
        std::printf("   %.2f\n", ratio_to_best(rows.back()));
        std::fflush(stdout);
      }
    }
  }
  if (!json.empty()) write_json(json, rows, libraries);
  return right ? 0 : 1;
}
