#include "tensora/ops/shape/view_dtype.h"

#include <cstring>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// The bytes of float32 elements as elements of T.
template <class T>
Array reinterpreted(const Array& x) {
  std::vector<float> floats(x.values.begin(), x.values.end());
  Shape sizes = x.sizes;
  sizes[sizes.size() - 1] = sizes[sizes.size() - 1] * 4 / static_cast<int64_t>(sizeof(T));
  Array result(sizes);
  for (int64_t i = 0; i < result.numel(); ++i) {
    T element;
    std::memcpy(&element, reinterpret_cast<const char*>(floats.data()) + size_t(i) * sizeof(T),
                sizeof(T));
    result[i] = static_cast<double>(element);
  }
  return result;
}

template <class T>
void add(Cases& cases, DType to, const Shape& sizes) {
  cases.add({.op = "view_dtype",
             .name = concat(sizes, " as ", to),
             .inputs = {{sizes}},
             .run = [to](In x) { return one(view_dtype(x[0], to)); },
             .reference = [](Arrays x) { return one(reinterpreted<T>(x[0])); },
             .dtypes = {kFloat32},
             .output_dtype = [to](DType) { return to; },
             .opt_out = {{Mode::grad, "bits have no gradient"},
                         {Mode::view, "the last stride must be 1"}},
             .is_view = true});
}

}  // namespace

void view_dtype_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{8}, Shape{3, 4}, Shape{0, 2}}) {
    add<int32_t>(cases, kInt32, sizes);
    add<int16_t>(cases, kInt16, sizes);
    add<uint8_t>(cases, kUInt8, sizes);
    add<int64_t>(cases, kInt64, sizes);
  }
  cases.error("view_dtype", "a 0-dim tensor", "cannot be viewed as int16",
              [] { view_dtype(zeros({}), kInt16); });
  cases.error("view_dtype", "columns", "the last stride must be 1", [] {
    view_dtype(zeros({2, 4}).t(), kInt16);
  });
  cases.error("view_dtype", "an odd size", "the last size must be divisible by 2",
              [] { view_dtype(zeros({7}), kFloat64); });
  cases.error("view_dtype", "an odd offset", "the storage offset must be divisible by 2",
              [] { view_dtype(zeros({8}).slice(0, 1, 7), kFloat64); });
  cases.error("view_dtype", "an odd stride", "the stride of dimension 0 must be divisible by 2",
              [] {
                view_dtype(zeros({3, 5}).slice(1, 0, 2), kFloat64);
              });
}

}  // namespace tensora::suite
