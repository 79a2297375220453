#pragma once

// How a room lists its sample cases for the op suite. Write them once, in `<room file>_cases.cpp`:
//
//   void softmax_cases(Cases& cases) {
//     cases.add({.op = "softmax", .name = "rows", .inputs = {{{4, 7}}},
//                .run = [](In x) { return one(softmax(x[0], 1)); },
//                .reference = [](Arrays x) { return one(naive_softmax(x[0], 1)); }});
//     cases.error("softmax", "dim out of range", "dimension out of range",
//                 [] { softmax(zeros({2}), 3); });
//   }
//
// The harness runs every case x dtype x device through all modes. A case that cannot take part in
// a mode opts out, with a reason.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensora/tensora.h"

namespace tensora::suite {

/// A row-major float64 array: what references are written on, independent of the library's ops.
struct Array {
  Shape sizes;
  std::vector<double> values;

  Array() = default;
  explicit Array(std::initializer_list<int64_t> shape) : Array(Shape(shape)) {}
  explicit Array(const Shape& shape, double value = 0)
      : sizes(shape), values(static_cast<size_t>(shape.numel()), value) {}
  int64_t numel() const { return static_cast<int64_t>(values.size()); }
  double& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
  /// The position of a multi-index in `values`.
  int64_t offset(const Shape& index) const;
  double& at(const Shape& index) { return values[static_cast<size_t>(offset(index))]; }
  double at(const Shape& index) const { return values[static_cast<size_t>(offset(index))]; }
  /// Calls body(index) for every multi-index in row-major order.
  static void each(const Shape& sizes, const std::function<void(const Shape& index)>& body);
  /// Repeats along dims of size 1, as broadcasting does.
  Array broadcast_to(const Shape& target) const;
};

using In = std::span<const Tensor>;
using Out = std::vector<Tensor>;
using Arrays = std::span<const Array>;
using ArrayList = std::vector<Array>;

inline Out one(Tensor tensor) { return {std::move(tensor)}; }
inline ArrayList one(Array array) { return {std::move(array)}; }

/// How one input is made: uniform in [low, high), or `values` (row-major) where given. `dtype`
/// fixes the dtype (an index, a mask); otherwise the case's dtypes are tried one after another.
struct Input {
  Shape sizes = {};
  double low = -3;
  double high = 3;
  std::optional<DType> dtype = {};
  std::vector<double> values = {};
};

enum class Mode {
  value,
  grad,
  view,
  inplace,
  error,
  determinism,
  perf,
  support,
  meta,
  coverage,
  jit,
  ulp
};

/// The device, and the dtype, under test; for cases whose `run` makes tensors itself.
Device device();
DType dtype();

/// Dtype sets for cases.
std::vector<DType> floating_dtypes();  // float16 bfloat16 float32 float64
std::vector<DType> number_dtypes();    // those and the integers
std::vector<DType> all_dtypes();       // those and bool
std::vector<DType> element_dtypes();   // those, the 8-bit floats and the complex dtypes
std::vector<DType> integer_dtypes();   // the integers
std::vector<DType> integral_dtypes();  // the integers and bool

struct Case {
  std::string op = {};    // the op's (function's) name
  std::string name = {};  // what is special about this sample
  std::vector<Input> inputs = {};
  std::function<Out(In)> run = nullptr;
  /// The definition, naively, in float64. Must not call the library's ops.
  std::function<ArrayList(Arrays)> reference = nullptr;
  std::vector<DType> dtypes = floating_dtypes();
  /// The in-place form, writing into input 0; null if there is none.
  std::function<void(In)> inplace = nullptr;
  /// The dtype of each output given the case's dtype; the default expects the case's dtype.
  std::function<DType(DType)> output_dtype = nullptr;
  /// Multiplies the default tolerance, for ops that amplify rounding.
  double tolerance = 1;
  /// Inputs with respect to which gradients are checked; by default all without a fixed dtype.
  std::optional<std::vector<int>> grad_inputs = {};
  /// Modes this case does not run in, each with the reason.
  std::map<Mode, std::string> opt_out = {};
  /// Only run in `perf`, at a size worth timing.
  bool big = false;
  /// True for views: the output must share the storage of input 0.
  bool is_view = false;
  /// The dtype of single outputs (indices, masks) where set; the others follow `output_dtype`.
  std::vector<std::optional<DType>> output_dtypes = {};
  /// The seed of the random stream, where the reference knows it; otherwise that of the run.
  std::optional<uint64_t> seed = {};
};

struct ErrorCase {
  std::string op, name;
  std::string message;  // must occur in the exception's text
  std::function<void()> run;
};

class Cases {
 public:
  void add(Case sample) { samples.push_back(std::move(sample)); }
  /// A mistake of the user's that must throw tensora::Error with `message` in its text.
  void error(std::string op, std::string name, std::string message, std::function<void()> run) {
    errors.push_back({std::move(op), std::move(name), std::move(message), std::move(run)});
  }

  std::vector<Case> samples;
  std::vector<ErrorCase> errors;
};

/// Generated: calls every `<stem>_cases` of the rooms.
void add_all_cases(Cases& cases);

}  // namespace tensora::suite
