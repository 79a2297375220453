#include "tensora/backend/cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "tensora/backend/cuda/checked.h"
#include "tensora/backend/cuda/dynamic_library.h"
#include "tensora/backend/cuda/runtime.h"
#include "tensora/backend/cuda/scratch.h"

// Note [Row-major through a column-major library]
// cuBLASLt thinks in columns. A row-major matrix is the transpose of a column-major one in the same
// memory, and (A B)^T = B^T A^T: so the product is asked for with the operands exchanged, and the
// result lies as we want it. Transposed operands are read where they are, by the library's own
// transpose flags.

namespace tensora::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

struct CublasLt {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtMatmulDescCreate)* desc_create;
  decltype(cublasLtMatmulDescDestroy)* desc_destroy;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set;
  decltype(cublasLtMatrixLayoutCreate)* layout_create;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy;
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set;
  decltype(cublasLtMatmulAlgoGetHeuristic)* get_heuristic;
  decltype(cublasLtMatmul)* matmul;

  CublasLt() {
    const DynamicLibrary library({"libcublasLt.so.13", "libcublasLt.so"}, "matrix multiplication");
    library.load(create, "cublasLtCreate");
    library.load(desc_create, "cublasLtMatmulDescCreate");
    library.load(desc_destroy, "cublasLtMatmulDescDestroy");
    library.load(desc_set, "cublasLtMatmulDescSetAttribute");
    library.load(layout_create, "cublasLtMatrixLayoutCreate");
    library.load(layout_destroy, "cublasLtMatrixLayoutDestroy");
    library.load(layout_set, "cublasLtMatrixLayoutSetAttribute");
    library.load(preference_create, "cublasLtMatmulPreferenceCreate");
    library.load(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    library.load(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    library.load(get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.load(matmul, "cublasLtMatmul");
  }
};

const CublasLt& lt() {
  static const CublasLt functions;
  return functions;
}

void check_lt(cublasStatus_t status, const Matmul& args, std::string_view call) {
  check(status == CUBLAS_STATUS_SUCCESS, args.op, ": cuBLASLt's ", call, " failed with status ",
        static_cast<int>(status), " for ", args.dtype, " [", args.batch, ", ", args.m, ", ", args.k,
        "] @ [", args.batch, ", ", args.k, ", ", args.n,
        "]; last ops launched: ", recent_launches());
}

cublasLtHandle_t handle(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& found = handles[device];
  if (!found) {
    const DeviceGuard guard(device);
    check(lt().create(&found) == CUBLAS_STATUS_SUCCESS, "cuda: cublasLtCreate failed");
  }
  return found;
}

std::atomic<bool> tf32{false};

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

/// Everything that the choice of an algorithm depends on.
using Key = std::array<int64_t, 16>;

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

/// Descriptors live as long as the call.
template <class T>
class Owned {
 public:
  Owned(T object, cublasStatus_t (*destroy)(T)) : object_(object), destroy_(destroy) {}
  ~Owned() { destroy_(object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T get() const { return object_; }

 private:
  T object_;
  cublasStatus_t (*destroy_)(T);
};

cublasLtMatrixLayout_t make_layout(const Matmul& args, const MatrixBatch& matrix, int64_t rows,
                                   int64_t cols, Layout layout) {
  cublasLtMatrixLayout_t result = nullptr;
  // Column-major sizes: the memory's rows become columns.
  const auto height = static_cast<uint64_t>(layout.transposed ? rows : cols);
  const auto width = static_cast<uint64_t>(layout.transposed ? cols : rows);
  check_lt(lt().layout_create(&result, data_type(args.dtype), height, width, layout.leading), args,
           "layout");
  const int32_t count = static_cast<int32_t>(args.batch);
  const int64_t stride = matrix.batch_stride;
  lt().layout_set(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  lt().layout_set(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return result;
}

uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(std::min<uintptr_t>(256, bits & -bits));
}

// The library's first choice for this problem; asked for once per problem and device.
cublasLtMatmulAlgo_t find_algorithm(const Matmul& args, const Key& key, cublasLtMatmulDesc_t desc,
                                    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                    cublasLtMatrixLayout_t out) {
  static std::mutex mutex;
  static std::map<Key, cublasLtMatmulAlgo_t> known;
  {
    std::lock_guard lock(mutex);
    const auto found = known.find(key);
    if (found != known.end()) return found->second;
  }
  cublasLtMatmulPreference_t raw = nullptr;
  check_lt(lt().preference_create(&raw), args, "preference");
  const Owned<cublasLtMatmulPreference_t> preference(raw, lt().preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt().preference_set(preference.get(), attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(args.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(args.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(args.out.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(args.out.data));
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  check_lt(lt().get_heuristic(handle(args.device), desc, a, b, out, out, preference.get(), 1,
                              &result, &count),
           args, "heuristic");
  check(count > 0, args.op, ": cuBLASLt has no algorithm for ", args.dtype, " [", args.batch, ", ",
        args.m, ", ", args.k, "] @ [", args.k, ", ", args.n, "]");
  std::lock_guard lock(mutex);
  return known.emplace(key, result.algo).first->second;
}

}  // namespace

void allow_tf32(bool allowed) { tf32.store(allowed, std::memory_order_relaxed); }
bool tf32_allowed() { return tf32.load(std::memory_order_relaxed); }

bool is_blas_layout(const MatrixBatch& matrix, int64_t rows, int64_t cols) {
  const bool row_major =
      (matrix.col_stride == 1 || cols == 1) && (matrix.row_stride >= cols || rows == 1);
  const bool col_major =
      (matrix.row_stride == 1 || rows == 1) && (matrix.col_stride >= rows || cols == 1);
  return row_major || col_major;
}

void blas_matmul(const Matmul& args) {
  const Layout a = layout_of(args.a, args.m, args.k), b = layout_of(args.b, args.k, args.n),
               out = layout_of(args.out, args.m, args.n);
  ensure(!out.transposed, "blas_matmul: the result must be row-major");
  use_device(args.device);
  const cudaDataType_t scale = args.dtype == DType::float64 ? CUDA_R_64F : CUDA_R_32F;
  cublasLtMatmulDesc_t raw = nullptr;
  check_lt(lt().desc_create(&raw, compute_type(args.dtype), scale), args, "description");
  const Owned<cublasLtMatmulDesc_t> desc(raw, lt().desc_destroy);
  const auto flag = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // Exchanged: the library's A is our b.
  const cublasOperation_t first = flag(b.transposed), second = flag(a.transposed);
  lt().desc_set(desc.get(), CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  lt().desc_set(desc.get(), CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  using OwnedLayout = Owned<cublasLtMatrixLayout_t>;
  const OwnedLayout layout_a(make_layout(args, args.a, args.m, args.k, a), lt().layout_destroy);
  const OwnedLayout layout_b(make_layout(args, args.b, args.k, args.n, b), lt().layout_destroy);
  const OwnedLayout layout_out(make_layout(args, args.out, args.m, args.n, out),
                               lt().layout_destroy);
  const Key key = {args.device,
                   static_cast<int64_t>(args.dtype),
                   args.batch,
                   args.m,
                   args.n,
                   args.k,
                   a.transposed,
                   b.transposed,
                   a.leading,
                   b.leading,
                   out.leading,
                   tf32_allowed(),
                   alignment_of(args.a.data),
                   alignment_of(args.b.data),
                   alignment_of(args.out.data),
                   (args.a.batch_stride == 0) + 2 * (args.b.batch_stride == 0)};
  const cublasLtMatmulAlgo_t algorithm =
      find_algorithm(args, key, desc.get(), layout_b.get(), layout_a.get(), layout_out.get());
  const Scratch workspace(args.device, kWorkspaceBytes);
  const float alpha = static_cast<float>(args.alpha), beta = static_cast<float>(args.beta);
  const bool wide = args.dtype == DType::float64;
  note_launch(args.op);
  check_lt(lt().matmul(handle(args.device), desc.get(),
                       wide ? static_cast<const void*>(&args.alpha) : &alpha, args.b.data,
                       layout_b.get(), args.a.data, layout_a.get(),
                       wide ? static_cast<const void*>(&args.beta) : &beta, args.out.data,
                       layout_out.get(), args.out.data, layout_out.get(), &algorithm,
                       workspace.data(), kWorkspaceBytes, current_stream(args.device)),
           args, "matmul");
  after_launch(args.op, args.device);
}

}  // namespace tensora::cuda
