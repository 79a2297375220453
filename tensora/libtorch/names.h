#pragma once

// Tensora's types and functions in the namespaces torch, at and c10.

#include <any>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>
#include <unordered_map>

#include "tensora/amp.h"
#include "tensora/backend/cuda/cuda.h"
#include "tensora/libtorch/macros.h"
#include "tensora/ops/special_names.h"
#include "tensora/tensora.h"

namespace c10 {

using tensora::Error;
using tensora::IndexError;
using tensora::NotImplementedError;
using tensora::TypeError;
using tensora::ValueError;

using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using std::string_view;

using BFloat16 = tensora::BFloat16;
using Half = tensora::Half;
template <class T>
using complex = tensora::Complex<T>;
using Device = tensora::Device;
using DeviceIndex = int8_t;
using DeviceType = tensora::DeviceType;
using Layout = tensora::Layout;
using MemoryFormat = tensora::MemoryFormat;
using IntArrayRef = tensora::Shape;
using Scalar = tensora::Scalar;
using ScalarType = tensora::DType;
using TensorOptions = tensora::TensorOptions;
using tensora::AutoGradMode;
using tensora::InferenceMode;
using tensora::NoGradGuard;
using OptionalIntArrayRef = std::optional<IntArrayRef>;
template <class T>
using OptionalArrayRef = std::optional<std::vector<T>>;
/// Whether this thread records gradients.
struct GradMode {
  static bool is_enabled() { return tensora::is_grad_enabled(); }
  static void set_enabled(bool enabled) { tensora::thread_state.grad_enabled = enabled; }
};

inline constexpr DeviceType kCPU = tensora::kCPU, kCUDA = tensora::kCUDA, kMeta = tensora::kMeta;

namespace detail {
template <tensora::DType type, class... Candidates>
struct CppType;
template <tensora::DType type, class First, class... Rest>
struct CppType<type, First, Rest...>
    : std::conditional_t<tensora::dtype_of<First> == type, std::type_identity<First>,
                         CppType<type, Rest...>> {};
template <tensora::DType type>
struct CppType<type> {};
}  // namespace detail
/// The C++ type of a dtype's elements.
template <tensora::DType type>
using cpp_type =
    typename detail::CppType<type, bool, uint8_t, int8_t, int16_t, int32_t, int64_t, Half, BFloat16,
                             float, double, complex<float>, complex<double>>::type;

/// The parts as one text.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

/// Elements that are stored elsewhere; whoever stores them must outlive it.
template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  ArrayRef() = default;
  ArrayRef(const T& one) : data_(&one), size_(1) {}  // NOLINT: implicit
  ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  /// For a call: the list lives as long as the call does.
  ArrayRef(const std::initializer_list<T>& list) : data_(std::begin(list)), size_(list.size()) {}
  template <class Container>
    requires requires(const Container& c) {
      { c.data() } -> std::convertible_to<const T*>;
      c.size();
    }
  ArrayRef(const Container& c)  // NOLINT: implicit
      : data_(c.data()), size_(static_cast<size_t>(c.size())) {}

  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  const T& operator[](size_t index) const { return data_[index]; }
  const T& at(size_t index) const {
    tensora::check(index < size_, "ArrayRef: index ", index, " is outside of ", size_, " elements");
    return data_[index];
  }
  ArrayRef slice(size_t start, size_t count) const { return {data_ + start, count}; }
  ArrayRef slice(size_t start) const { return {data_ + start, size_ - start}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> list) {
  out << "[";
  for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
  return out << "]";
}

/// The numbers from `begin` to `end`, for a loop.
template <std::integral Int>
class IntegerRange {
 public:
  struct Iterator {
    Int value;
    Int operator*() const { return value; }
    Iterator& operator++() {
      ++value;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return value < other.value; }
  };
  IntegerRange(Int begin, Int end) : begin_(begin), end_(end) {}
  Iterator begin() const { return {begin_}; }
  Iterator end() const { return {end_}; }

 private:
  Int begin_, end_;
};
template <std::integral End>
IntegerRange<End> irange(End end) {
  return {End{0}, end};
}
template <std::integral Begin, std::integral End>
IntegerRange<End> irange(Begin begin, End end) {
  return {static_cast<End>(begin), end};
}

}  // namespace c10

// As in LibTorch, std::abs and the like take complex numbers; they are found by no other lookup.
// NOLINTBEGIN(cert-dcl58-cpp)
namespace std {
template <class T>
T abs(const c10::complex<T>& z) {
  return std::hypot(z.real(), z.imag());
}
template <class T>
T arg(const c10::complex<T>& z) {
  return std::atan2(z.imag(), z.real());
}
template <class T>
c10::complex<T> conj(const c10::complex<T>& z) {
  return {z.real(), -z.imag()};
}
}  // namespace std
// NOLINTEND(cert-dcl58-cpp)

namespace torch {

using tensora::AutoGradMode;
using tensora::BFloat16;
using tensora::Device;
using tensora::DeviceType;
using tensora::Dtype;
using tensora::Generator;
using tensora::Half;
using tensora::InferenceMode;
using tensora::IntArrayRef;
using tensora::Layout;
using tensora::MemoryFormat;
using tensora::NoGradGuard;
using tensora::Scalar;
using tensora::ScalarType;
using tensora::Tensor;
using tensora::TensorOptions;
using TensorList = std::vector<Tensor>;
using TensorBase = Tensor;
using c10::ArrayRef;
using c10::Error;
using c10::GradMode;
using c10::IndexError;
using c10::make_optional;
using c10::NotImplementedError;
using c10::nullopt;
using c10::optional;
using c10::str;
using c10::string_view;
using c10::TypeError;
using c10::ValueError;

using tensora::kBFloat16, tensora::kBool, tensora::kByte, tensora::kChar, tensora::kComplex128,
    tensora::kComplex64, tensora::kCPU, tensora::kCUDA, tensora::kDouble, tensora::kFloat,
    tensora::kFloat16, tensora::kFloat32, tensora::kFloat64, tensora::kHalf, tensora::kInt,
    tensora::kInt16, tensora::kInt32, tensora::kInt64, tensora::kInt8, tensora::kLong,
    tensora::kMeta, tensora::kShort, tensora::kStrided, tensora::kUInt8;
inline constexpr ScalarType kComplexFloat = kComplex64, kComplexDouble = kComplex128, kF16 = kHalf,
                            kF32 = kFloat, kF64 = kDouble, kI8 = kChar, kI16 = kShort, kI32 = kInt,
                            kI64 = kLong, kU8 = kByte;

using tensora::device;
using tensora::dtype;
using tensora::get_num_threads;
using tensora::is_deterministic;
using tensora::manual_seed;
using tensora::requires_grad;
using tensora::set_default_dtype;
using tensora::set_num_threads;
/// Ops run one after the other, so that there is one thread between ops, whatever is asked for.
inline int get_num_interop_threads() { return 1; }
inline void set_num_interop_threads(int count) {
  tensora::check(count > 0, "set_num_interop_threads: expected a positive number, got ", count);
}
inline void init_num_threads() {}
inline TensorOptions layout(Layout) { return {}; }
inline Dtype typeMetaToScalarType(Dtype type) { return type; }
inline Dtype scalarTypeToTypeMeta(Dtype type) { return type; }
inline bool isIntegralType(Dtype type, bool include_bool = false) {
  return !tensora::is_floating_point(type) && !tensora::is_complex(type) &&
         (include_bool || type != kBool);
}
inline bool isFloatingType(Dtype type) { return tensora::is_floating_point(type); }
inline bool isComplexType(Dtype type) { return tensora::is_complex(type); }
inline Dtype promote_types(Dtype a, Dtype b) { return tensora::promote_types(a, b); }

namespace indexing = tensora::indexing;

namespace detail {

// Message parts that only streams can print are printed by one.
template <class... Parts>
std::string message(const Parts&... parts) {
  return c10::str(parts...);
}
template <class Kind, class... Parts>
[[noreturn]] void throw_check(const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0)
    throw Kind(std::string("Expected ") + condition + " to be true, but got false.");
  else
    throw Kind(message(parts...));
}
template <class... Parts>
void warn(const Parts&... parts) {
  std::cerr << "Warning: " + message(parts...) + "\n";
}

/// Element types that a kernel is compiled for.
template <class... T>
struct Types {
  template <class... More>
  using With = Types<T..., More...>;
};
using FloatingTypes = Types<double, float>;
using IntegralTypes = Types<uint8_t, int8_t, int32_t, int64_t, int16_t>;
using AllTypes = Types<uint8_t, int8_t, int32_t, int64_t, int16_t, double, float>;
using FloatingAndComplexTypes = FloatingTypes::With<c10::complex<double>, c10::complex<float>>;
using AllAndComplexTypes = AllTypes::With<c10::complex<double>, c10::complex<float>>;

template <class Set, class Body>
auto dispatch(Dtype type, const char* name, const Body& body) {
  return [&]<class First, class... Rest>(std::type_identity<Types<First, Rest...>>) {
    using Result = decltype(body.template operator()<First>());
    bool found = false;
    if constexpr (std::is_void_v<Result>) {
      const auto visit = [&]<class T>() {
        if (found || tensora::dtype_of<T> != type) return;
        found = true;
        body.template operator()<T>();
      };
      (visit.template operator()<First>(), ..., visit.template operator()<Rest>());
      tensora::check(found, name, ": not implemented for ", type);
    } else {
      std::optional<Result> result;
      const auto visit = [&]<class T>() {
        if (!result && tensora::dtype_of<T> == type) result.emplace(body.template operator()<T>());
      };
      (visit.template operator()<First>(), ..., visit.template operator()<Rest>());
      tensora::check(result.has_value(), name, ": not implemented for ", type);
      return *std::move(result);
    }
  }(std::type_identity<Set>());
}

/// Makes `out` hold `result`: in the memory that it has, where the shape is the same.
inline Tensor& write_out(Tensor& out, const Tensor& result) {
  if (!out.defined()) return out = result;
  if (out.sizes() != result.sizes()) out.resize_(result.sizes());
  out.copy_(result);
  return out;
}

inline Generator createCPUGenerator(uint64_t seed = 67280421310721) { return Generator(seed); }

}  // namespace detail

/// Names the kind of a generator.
struct CPUGeneratorImpl;
/// An empty generator for a device; the only kind there is serves all of them.
template <class Impl = void>
Generator make_generator(uint64_t seed = 0) {
  return Generator(seed);
}

/// Random tensors of a generator, whose stream goes on.
inline Tensor rand(const tensora::Shape& size, Generator& generator,
                   const TensorOptions& options = {}) {
  const tensora::GeneratorScope scope(generator);
  return tensora::rand(size, options);
}
inline Tensor randn(const tensora::Shape& size, Generator& generator,
                    const TensorOptions& options = {}) {
  const tensora::GeneratorScope scope(generator);
  return tensora::randn(size, options);
}
inline Tensor randint(int64_t low, int64_t high, const tensora::Shape& size, Generator& generator,
                      const TensorOptions& options = {}) {
  const tensora::GeneratorScope scope(generator);
  return tensora::randint(low, high, size, options);
}
inline Tensor randperm(int64_t n, Generator& generator, const TensorOptions& options = {}) {
  const tensora::GeneratorScope scope(generator);
  return tensora::randperm(n, options);
}

namespace cuda {
using tensora::cuda::is_available;
size_t device_count();
void synchronize(int64_t device_index = -1);
inline bool cudnn_is_available() { return false; }
void manual_seed(uint64_t seed);
void manual_seed_all(uint64_t seed);
}  // namespace cuda

}  // namespace torch

#include "tensora/libtorch/op_names.h"

namespace torch {

/// The rows of `weight` at `indices`.
inline Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx = -1,
                        bool scale_grad_by_freq = false, bool sparse = false) {
  return tensora::embedding(indices, weight,
                            padding_idx < 0 ? std::nullopt : std::optional<int64_t>(padding_idx),
                            {}, 2, scale_grad_by_freq, sparse);
}

/// at::embedding_bag: the bags, and three tensors that only its own backward needs, left empty. The
/// modes are 0 (sum), 1 (mean) and 2 (max); offsets begin the bags.
inline std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag(
    const Tensor& weight, const Tensor& indices, const Tensor& offsets,
    bool scale_grad_by_freq = false, int64_t mode = 0, bool sparse = false,
    const Tensor& per_sample_weights = {}, bool include_last_offset = false,
    int64_t padding_idx = -1) {
  tensora::check(mode >= 0 && mode <= 2, "embedding_bag: mode must be 0, 1 or 2, got ", mode);
  return {
      tensora::embedding_bag(indices, weight, offsets, {}, 2, scale_grad_by_freq,
                             mode == 0   ? "sum"
                             : mode == 1 ? "mean"
                                         : "max",
                             sparse, per_sample_weights, include_last_offset,
                             padding_idx < 0 ? std::nullopt : std::optional<int64_t>(padding_idx)),
      {},
      {},
      {}};
}

/// Pads as `pad` does, dims from the last to the first; negative numbers cut off.
inline Tensor constant_pad_nd(const Tensor& self, const std::vector<int64_t>& pad,
                              Scalar value = 0) {
  return tensora::pad(self, pad, "constant", value);
}

/// How the losses of at:: sum up their elements.
namespace Reduction {
inline constexpr tensora::Reduction None = tensora::Reduction::none,
                                    Mean = tensora::Reduction::mean, Sum = tensora::Reduction::sum;
}  // namespace Reduction

/// at::elu has two more factors; selu is `elu(x, 1.67, 1.05)`.
inline Tensor elu(const Tensor& self, Scalar alpha = 1, Scalar scale = 1, Scalar input_scale = 1) {
  if (scale == Scalar(1) && input_scale == Scalar(1)) return tensora::elu(self, alpha.to<double>());
  const Tensor negative = tensora::expm1(self * input_scale) * alpha;
  return tensora::where(self > 0, self, negative) * scale;
}

/// As at::binary_cross_entropy does, takes a target that differs from `input` in dims of size 1.
inline Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                   const Tensor& weight = {},
                                   tensora::Reduction reduction = Reduction::Mean) {
  const bool fits = input.squeeze().sizes() == target.squeeze().sizes();
  return tensora::binary_cross_entropy(input, fits ? target.reshape(input.sizes()) : target, weight,
                                       reduction);
}

/// Indices as at::index takes them: undefined means the whole dim.
inline std::vector<tensora::TensorIndex> index_list(
    const std::vector<std::optional<Tensor>>& indices) {
  std::vector<tensora::TensorIndex> list;
  for (const auto& one : indices)
    list.push_back(one && one->defined() ? tensora::TensorIndex(*one)
                                         : tensora::TensorIndex(tensora::Slice()));
  return list;
}
inline Tensor index(const Tensor& self, const std::vector<std::optional<Tensor>>& indices) {
  return tensora::index(self, index_list(indices));
}
inline const Tensor& index_put_(const Tensor& self,
                                const std::vector<std::optional<Tensor>>& indices,
                                const Tensor& values, bool accumulate = false) {
  return tensora::index_put_(self, index_list(indices), values, accumulate);
}

/// In LibTorch the reduction comes before the class to ignore.
inline Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                       tensora::Reduction reduction, int64_t ignore_index = -100) {
  return tensora::nll_loss(input, target, weight, ignore_index, reduction);
}

// Resampling to a size by the names that LibTorch has beside interpolate.
inline Tensor upsample_nearest1d(const Tensor& input, const IntArrayRef& output_size) {
  return tensora::interpolate(input, output_size, {}, "nearest");
}
inline Tensor upsample_nearest2d(const Tensor& input, const IntArrayRef& output_size) {
  return tensora::interpolate(input, output_size, {}, "nearest");
}
inline Tensor upsample_nearest3d(const Tensor& input, const IntArrayRef& output_size) {
  return tensora::interpolate(input, output_size, {}, "nearest");
}
inline Tensor upsample_linear1d(const Tensor& input, const IntArrayRef& output_size,
                                bool align_corners) {
  return tensora::interpolate(input, output_size, {}, "linear", align_corners);
}
inline Tensor upsample_bilinear2d(const Tensor& input, const IntArrayRef& output_size,
                                  bool align_corners) {
  return tensora::interpolate(input, output_size, {}, "bilinear", align_corners);
}
inline Tensor upsample_bicubic2d(const Tensor& input, const IntArrayRef& output_size,
                                 bool align_corners) {
  return tensora::interpolate(input, output_size, {}, "bicubic", align_corners);
}
inline Tensor upsample_trilinear3d(const Tensor& input, const IntArrayRef& output_size,
                                   bool align_corners) {
  return tensora::interpolate(input, output_size, {}, "trilinear", align_corners);
}

}  // namespace torch

namespace at {

using namespace torch;  // NOLINT: at is torch, as in LibTorch
using tensora::Generator;

}  // namespace at
