#include "tests/suite/samples.h"

#include <cmath>
#include <cstring>

namespace tensora::suite {

void store_element(void* address, DType dtype, double value) {
  visit_element(dtype, [&]<class T>() {
    T element;
    if constexpr (std::is_same_v<T, bool>)
      element = value != 0;
    else if constexpr (std::is_integral_v<T>)
      element = static_cast<T>(std::isfinite(value) ? static_cast<int64_t>(value) : 0);
    else if constexpr (std::is_same_v<T, double>)
      element = value;
    else if constexpr (is_complex_type<T>)
      element = Complex<double>(value);
    else
      element = T(static_cast<float>(value));
    std::memcpy(address, &element, sizeof element);
  });
}

double load_element(const void* address, DType dtype) {
  return visit_element(dtype, [&]<class T>() -> double {
    T element;
    std::memcpy(&element, address, sizeof element);
    if constexpr (is_complex_type<T>)
      return element.re;
    else
      return static_cast<double>(element);
  });
}

double rounded(double value, DType dtype) {
  std::byte bytes[kMaxElementSize];
  store_element(bytes, dtype, value);
  return load_element(bytes, dtype);
}

// splitmix64: tiny, and the same everywhere.
double Numbers::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

uint64_t seed_of(const Check& check, uint64_t purpose) {
  uint64_t hash = 0xcbf29ce484222325u ^ check.setting.seed;
  for (char letter : check.sample.op + "/" + check.sample.name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  // Not the generator's own step, which would give every input the same numbers, one further on.
  return hash + purpose * 0xd1b54a32d192ed03u;
}

DType input_dtype(const Check& check, size_t i) {
  return check.sample.inputs[i].dtype.value_or(check.dtype);
}

namespace {

double draw_one(const Input& input, DType dtype, Numbers& numbers) {
  const double part = numbers.next();
  if (dtype == kBool) return part < 0.5 ? 0 : 1;
  const double low = dtype == kUInt8 ? std::max(input.low, 0.0) : input.low;
  const double value = low + part * (std::max(input.high, low + 1e-9) - low);
  return is_differentiable(dtype) ? value : std::floor(value);
}

}  // namespace

ArrayList draw_inputs(const Check& check) {
  ArrayList result;
  for (size_t i = 0; i < check.sample.inputs.size(); ++i) {
    const Input& input = check.sample.inputs[i];
    const DType dtype = input_dtype(check, i);
    Numbers numbers(seed_of(check, i + 1));
    Array array(input.sizes);
    require(input.values.empty() || std::ssize(input.values) == array.numel(), "the case gives ",
            input.values.size(), " values for an input of shape ", input.sizes);
    for (int64_t k = 0; k < array.numel(); ++k) {
      const double value = input.values.empty() ? draw_one(input, dtype, numbers)
                                                : input.values[static_cast<size_t>(k)];
      array[k] = rounded(value, dtype);
    }
    result.push_back(std::move(array));
  }
  return result;
}

Array draw_weights(const Shape& sizes, Numbers& numbers) {
  Array result(sizes);
  for (double& value : result.values) value = 2 * numbers.next() - 1;
  return result;
}

Inputs::Inputs(const Check& check, const ArrayList& values,
               const std::function<Layout(const Shape&, size_t input)>& layout) {
  for (size_t i = 0; i < values.size(); ++i) {
    placed_.emplace_back(values[i], input_dtype(check, i), layout(values[i].sizes, i),
                         check.setting.device);
    tensors_.push_back(placed_.back().tensor());
  }
}

Inputs::Inputs(const Check& check, const ArrayList& values)
    : Inputs(check, values, [](const Shape& sizes, size_t) { return contiguous_layout(sizes); }) {}

void Inputs::require_unchanged() const {
  for (size_t i = 0; i < placed_.size(); ++i) placed_[i].require_unchanged(concat("input ", i));
}

Out run(const Check& check, In inputs) {
  manual_seed(check.sample.seed.value_or(check.setting.seed));
  return check.sample.run(inputs);
}

void run_inplace(const Check& check, In inputs) {
  manual_seed(check.sample.seed.value_or(check.setting.seed));
  check.sample.inplace(inputs);
}

Array read(const Tensor& tensor) {
  const no_grad silent;
  const Tensor host = tensor.is_cpu() ? tensor : tensor.cpu();
  Array result(host.sizes());
  const auto* data = static_cast<const std::byte*>(host.data_ptr());
  int64_t position = 0;
  Array::each(host.sizes(), [&](const Shape& index) {
    int64_t from = 0;
    for (int d = 0; d < index.size(); ++d) from += index[d] * host.strides()[d];
    result[position++] =
        load_element(data + from * static_cast<int64_t>(host.element_size()), host.dtype());
  });
  return result;
}

ArrayList read_all(const Out& tensors) {
  ArrayList result;
  for (const Tensor& tensor : tensors) result.push_back(read(tensor));
  return result;
}

Tolerance tolerance_of(DType dtype, double factor) {
  switch (dtype) {
    case DType::float64:
    case DType::complex128:
      return {1e-9 * factor, 1e-9 * factor};
    case DType::float32:
    case DType::complex64:
      return {1e-5 * factor, 1e-5 * factor};
    case DType::float16:
      return {2e-3 * factor, 2e-3 * factor};
    case DType::bfloat16:
      return {2e-2 * factor, 2e-2 * factor};
    default:
      return {};
  }
}

void require_close(const Array& got, const Array& expected, Tolerance tolerance,
                   std::string_view what) {
  require(got.sizes == expected.sizes, what, ": expected shape ", expected.sizes, ", got ",
          got.sizes);
  double largest = 0;
  int64_t bad = 0;
  Shape first_index;
  double first_expected = 0, first_got = 0;
  int64_t position = 0;
  Array::each(expected.sizes, [&](const Shape& index) {
    const double e = expected[position], g = got[position];
    ++position;
    if (e == g || (std::isnan(e) && std::isnan(g))) return;
    const double error = std::abs(g - e);
    const bool comparable = std::isfinite(e) && std::isfinite(g);
    if (comparable && error <= tolerance.absolute + tolerance.relative * std::abs(e)) return;
    largest = comparable ? std::max(largest, error) : HUGE_VAL;
    if (bad++ != 0) return;
    first_index = index;
    first_expected = e;
    first_got = g;
  });
  require(bad == 0, what, ": ", bad, " of ", expected.numel(), " elements differ, max error ",
          largest, ", first at ", first_index, ": expected ", first_expected, ", got ", first_got);
}

}  // namespace tensora::suite
