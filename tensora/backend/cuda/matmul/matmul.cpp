#include "tensora/backend/cuda/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "tensora/backend/cuda/matmul/matmul_library.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/core/deferred.h"
#include "tensora/core/determinism.h"

// Note [Row-major through a column-major library]
// cuBLASLt is column-major. A row-major matrix is the transpose of a column-major one in the same
// memory, and (A B)^T = B^T A^T: so the product is computed with the operands exchanged, and the
// result is row-major. Transposed operands are read in place, by the library's own transpose flags.
// A bias per row of its result is, to us, one per column.

namespace tensora::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr size_t kMaxPlans = 4096;  // per thread, and of tuned ones; more than any network needs

void check_lt(cublasStatus_t status, const Matmul& args, std::string_view call) {
  check(status == CUBLAS_STATUS_SUCCESS, args.op, ": cuBLASLt's ", call, " failed with status ",
        static_cast<int>(status), " for ", args.dtype, " [", args.batch, ", ", args.m, ", ", args.k,
        "] @ [", args.batch, ", ", args.k, ", ", args.n,
        "]; last ops launched: ", recent_launches());
}

std::atomic<bool> tf32{false};

std::atomic<bool> tuning{false};

bool tunes_now() {
  return tuning.load(std::memory_order_relaxed) && !is_deterministic() && !current_capture();
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return CUDA_R_16F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::float64) return CUBLAS_COMPUTE_64F;
  if (dtype == DType::float32 && tf32_allowed()) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

// A matrix as cuBLASLt sees it, after Note [Row-major through a column-major library].
struct Layout {
  bool transposed;  // the memory holds the transpose of what the product needs
  int64_t leading;
};

Layout layout_of(const MatrixBatch& matrix, int64_t rows, int64_t cols) {
  // Row-major memory is what the exchanged product takes without a transpose.
  if (matrix.col_stride == 1 || cols == 1) {
    const bool usable = matrix.row_stride >= cols || rows == 1;
    if (usable && (matrix.col_stride == 1 || matrix.row_stride != 1 || rows == 1))
      return {false, std::max({matrix.row_stride, cols, int64_t{1}})};
  }
  return {true, std::max({matrix.col_stride, rows, int64_t{1}})};
}

cublasLtEpilogue_t epilogue_of(const Epilogue& epilogue) {
  if (epilogue.sums_of_a) return CUBLASLT_EPILOGUE_BGRADB;  // operands are exchanged
  if (epilogue.sums_of_b) return CUBLASLT_EPILOGUE_BGRADA;
  const bool bias = epilogue.bias, aux = epilogue.aux, sums = epilogue.sums_of_out;
  switch (epilogue.function) {
    case Epilogue::Function::none:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::Function::relu:
      if (aux) return bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX;
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::Function::gelu:
      if (aux) return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::Function::relu_gradient:
      return sums ? CUBLASLT_EPILOGUE_DRELU_BGRAD : CUBLASLT_EPILOGUE_DRELU;
    case Epilogue::Function::gelu_gradient:
      return sums ? CUBLASLT_EPILOGUE_DGELU_BGRAD : CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// The vector that the library reads (a bias) or writes (sums); it has one pointer for both.
const void* vector_of(const Epilogue& epilogue) {
  for (const void* vector :
       {static_cast<const void*>(epilogue.sums_of_a), static_cast<const void*>(epilogue.sums_of_b),
        static_cast<const void*>(epilogue.sums_of_out)})
    if (vector) return vector;
  return epilogue.bias;
}

/// A product that was prepared: everything but the addresses.
struct Plan {
  cublasLtMatmulDescOpaque_t description;
  cublasLtMatrixLayoutOpaque_t a, b, out;
  cublasLtMatmulHeuristicResult_t algorithm;
  bool exists;  // false: the library has none
};

template <class Value>
void set(cublasLtMatmulDescOpaque_t& description, cublasLtMatmulDescAttributes_t attribute,
         Value value) {
  cublas_lt().desc_set(&description, attribute, &value, sizeof value);
}

void set_addresses(cublasLtMatmulDescOpaque_t& description, const Epilogue& epilogue) {
  if (const void* vector = vector_of(epilogue))
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (epilogue.aux) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux);
}

DType out_dtype(const Matmul& args) { return args.out_dtype.value_or(args.dtype); }

void describe(cublasLtMatrixLayoutOpaque_t& to, const Matmul& args, DType dtype,
              const MatrixBatch& matrix, int64_t rows, int64_t cols, Layout layout) {
  // Column-major sizes: the memory's rows become columns.
  const auto height = static_cast<uint64_t>(layout.transposed ? rows : cols);
  const auto width = static_cast<uint64_t>(layout.transposed ? cols : rows);
  check_lt(cublas_lt().layout_init(&to, sizeof to, data_type(dtype), height, width, layout.leading),
           args, "layout");
  const auto count = static_cast<int32_t>(args.batch);
  const int64_t stride = matrix.batch_stride;
  cublas_lt().layout_set(&to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  cublas_lt().layout_set(&to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
}

uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(std::min<uintptr_t>(256, bits & -bits));
}

const void* added_to(const Matmul& args) { return args.added ? args.added : args.out.data; }

using Candidates = std::vector<cublasLtMatmulHeuristicResult_t>;

// The algorithms that the library recommends, the best guess first; up to `count`.
Candidates recommended(Plan& plan, const Matmul& args, size_t count) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_lt(cublas_lt().preference_init(&preference, sizeof preference), args, "preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    cublas_lt().preference_set(&preference, attribute, &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(args.b.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(args.a.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(added_to(args)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(args.out.data));
  Candidates found(count);
  int returned = 0;
  const cublasStatus_t status = cublas_lt().get_heuristic(
      cublas_lt_handle(args.device), &plan.description, &plan.b, &plan.a, &plan.out, &plan.out,
      &preference, static_cast<int>(count), found.data(), &returned);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(returned) : 0);
  return found;
}

// Queues the product; the result goes to `to`, which has the layout of args.out.
cublasStatus_t enqueue(Plan& plan, const Matmul& args, const cublasLtMatmulAlgo_t& algorithm,
                       void* to, void* workspace, size_t workspace_bytes) {
  cublasLtMatmulDescOpaque_t description = plan.description;
  set_addresses(description, args.epilogue);
  const float alpha = static_cast<float>(args.alpha), beta = static_cast<float>(args.beta);
  const bool wide = args.dtype == DType::float64;
  return cublas_lt().matmul(
      cublas_lt_handle(args.device), &description,
      wide ? static_cast<const void*>(&args.alpha) : &alpha, args.b.data, &plan.b, args.a.data,
      &plan.a, wide ? static_cast<const void*>(&args.beta) : &beta, added_to(args), &plan.out, to,
      &plan.out, &algorithm, workspace, workspace_bytes, current_stream(args.device));
}

// From the first element of the result to one past its last.
size_t result_bytes(const Matmul& args) {
  const int64_t elements = (args.batch - 1) * args.out.batch_stride +
                           (args.m - 1) * std::max(args.out.row_stride, args.n) + args.n;
  return static_cast<size_t>(elements) * element_size(out_dtype(args));
}

/// Milliseconds of device time between two calls.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    for (cudaEvent_t* event : {&begin_, &end_})
      check_cuda(cudaEventCreateWithFlags(event, cudaEventDefault), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (cudaEvent_t event : {begin_, end_}) cudaEventDestroy(event);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start() { check_cuda(cudaEventRecord(begin_, stream_), "cudaEventRecord"); }
  float stop() {
    check_cuda(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check_cuda(wait_for_event(end_), "timing a matrix product");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// The fastest candidate. Results go to scratch memory: with a beta, the product's own memory is an
// input. What an epilogue leaves beside the result is the same every time.
cublasLtMatmulHeuristicResult_t fastest(Plan& plan, const Matmul& args,
                                        const Candidates& candidates) {
  constexpr int kRuns = 5, kRounds = 3;
  const Scratch result(args.device, result_bytes(args));
  const Scratch workspace(args.device, kWorkspaceBytes);
  Stopwatch watch(current_stream(args.device));
  size_t best = 0;
  float best_time = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto run = [&] {
      return enqueue(plan, args, candidates[i].algo, result.data(), workspace.data(),
                     kWorkspaceBytes);
    };
    if (run() != CUBLAS_STATUS_SUCCESS) continue;  // and warms up
    for (int round = 0; round < kRounds; ++round) {
      watch.start();
      for (int k = 0; k < kRuns; ++k) run();
      const float time = watch.stop();
      if (time >= best_time) continue;
      best_time = time;
      best = i;
    }
  }
  return candidates[best];
}

/// Everything that a plan depends on.
using Key = std::array<int64_t, 24>;

// Shared by all threads.
cublasLtMatmulHeuristicResult_t tuned_algorithm(Plan& plan, const Matmul& args, const Key& key,
                                                const Candidates& candidates) {
  static std::mutex mutex;
  static auto* known = new std::map<Key, cublasLtMatmulHeuristicResult_t>;
  std::lock_guard lock(mutex);
  const auto found = known->find(key);
  if (found != known->end()) return found->second;
  if (known->size() >= kMaxPlans) known->clear();
  return known->emplace(key, fastest(plan, args, candidates)).first->second;
}

void choose_algorithm(Plan& plan, const Matmul& args, const Key& key) {
  constexpr size_t kCandidates = 8;
  const bool tunes = tunes_now();
  const Candidates candidates = recommended(plan, args, tunes ? kCandidates : 1);
  plan.exists = !candidates.empty();
  if (!plan.exists) return;
  plan.algorithm = tunes && candidates.size() > 1 ? tuned_algorithm(plan, args, key, candidates)
                                                  : candidates.front();
}

Plan make_plan(const Matmul& args, const Key& key, Layout a, Layout b, Layout out) {
  Plan plan{};
  const cudaDataType_t scale = args.dtype == DType::float64 ? CUDA_R_64F : CUDA_R_32F;
  check_lt(cublas_lt().desc_init(&plan.description, sizeof plan.description,
                                 compute_type(args.dtype), scale),
           args, "description");
  const auto flag = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // Exchanged: the library's A is our b.
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, flag(b.transposed));
  set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, flag(a.transposed));
  set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(args.epilogue));
  if (args.epilogue.aux)
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, args.epilogue.aux_stride);
  set_addresses(plan.description, args.epilogue);
  describe(plan.a, args, args.dtype, args.a, args.m, args.k, a);
  describe(plan.b, args, args.dtype, args.b, args.k, args.n, b);
  describe(plan.out, args, out_dtype(args), args.out, args.m, args.n, out);
  choose_algorithm(plan, args, key);
  return plan;
}

// A plan is made once per problem and thread: asking the library takes longer than small products.
Plan& find_plan(const Matmul& args) {
  const Layout a = layout_of(args.a, args.m, args.k), b = layout_of(args.b, args.k, args.n),
               out = layout_of(args.out, args.m, args.n);
  ensure(!out.transposed, "blas_matmul: the result must be row-major");
  const Key key = {args.m,
                   args.n,
                   args.k,
                   args.batch,
                   static_cast<int64_t>(args.dtype),
                   a.transposed,
                   b.transposed,
                   static_cast<int64_t>(epilogue_of(args.epilogue)),
                   args.device,
                   tf32_allowed(),
                   tunes_now(),
                   a.leading,
                   b.leading,
                   out.leading,
                   args.a.batch_stride,
                   args.b.batch_stride,
                   args.out.batch_stride,
                   alignment_of(args.a.data),
                   alignment_of(args.b.data),
                   alignment_of(args.out.data),
                   alignment_of(vector_of(args.epilogue)),
                   alignment_of(args.added),
                   static_cast<int64_t>(out_dtype(args)),
                   args.epilogue.aux_stride};
  thread_local std::map<Key, Plan> plans;
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  if (plans.size() >= kMaxPlans) plans.clear();
  return plans.emplace(key, make_plan(args, key, a, b, out)).first->second;
}

}  // namespace

void allow_tf32(bool allowed) {
  flush_deferred();
  tf32.store(allowed, std::memory_order_relaxed);
}
bool tf32_allowed() { return tf32.load(std::memory_order_relaxed); }

void set_matmul_tuning(bool on) { tuning.store(on, std::memory_order_relaxed); }
bool matmul_tuning() { return tuning.load(std::memory_order_relaxed); }

bool is_blas_layout(const MatrixBatch& matrix, int64_t rows, int64_t cols) {
  const bool row_major =
      (matrix.col_stride == 1 || cols == 1) && (matrix.row_stride >= cols || rows == 1);
  const bool col_major =
      (matrix.row_stride == 1 || rows == 1) && (matrix.col_stride >= rows || cols == 1);
  return row_major || col_major;
}

bool blas_matmul(const Matmul& args) {
  use_device(args.device);
  Plan& plan = find_plan(args);
  if (!plan.exists) {
    check(epilogue_of(args.epilogue) != CUBLASLT_EPILOGUE_DEFAULT, args.op,
          ": cuBLASLt has no algorithm for ", args.dtype, " [", args.batch, ", ", args.m, ", ",
          args.k, "] @ [", args.k, ", ", args.n, "]");
    return false;
  }
  std::optional<Scratch> workspace;
  const size_t workspace_bytes = plan.algorithm.workspaceSize;
  if (workspace_bytes > 0) workspace.emplace(args.device, workspace_bytes);
  note_launch(args.op);
  check_lt(enqueue(plan, args, plan.algorithm.algo, args.out.data,
                   workspace ? workspace->data() : nullptr, workspace_bytes),
           args, "matmul");
  after_launch(args.op, args.device);
  return true;
}

}  // namespace tensora::cuda
