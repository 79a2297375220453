#include "tensora/core/print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <ostream>

#include "tensora/core/deferred.h"
#include "tensora/core/tensor.h"

namespace tensora {
namespace {

std::mutex options_mutex;
PrintOptions options_value;

// printf's %*.*f and %*.*e; long enough for any double at any precision.
std::string formatted(char conversion, int precision, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const char* pattern = conversion == 'e' ? "%.*e" : "%.*f";
  const int length = std::snprintf(nullptr, 0, pattern, precision, value);
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern, precision, value);
  text.pop_back();
  return text;
}

// How all numbers of a tensor (or all real, or all imaginary parts) are written.
class Format {
 public:
  explicit Format(const PrintOptions& options) : options_(options) {}

  size_t width() const { return width_; }
  void widen(const std::string& text, size_t extra = 0) {
    width_ = std::max(width_, text.size() + extra);
  }

  /// Chooses notation and width; `each_value(body)` calls body with every number.
  template <class EachValue>
  void choose(const EachValue& each_value) {
    double smallest = INFINITY, largest = 0;  // of the finite values that are not zero
    const auto each_finite = [&](const auto& body) {
      each_value([&](double value) {
        if (std::isfinite(value) && value != 0) body(value);
      });
    };
    each_finite([&](double value) {
      smallest = std::min(smallest, std::abs(value));
      largest = std::max(largest, std::abs(value));
      whole_ = whole_ && value == std::ceil(value);
    });
    if (largest == 0) return;
    scientific_ = largest / smallest > 1000 || largest > 1e8 || (!whole_ && smallest < 1e-4);
    each_finite([&](double value) {
      if (scientific_)
        widen(formatted('e', options_.precision, value));
      else if (whole_)
        widen(formatted('f', 0, value), 1);
      else
        widen(formatted('f', options_.precision, value));
    });
    scientific_ = options_.sci_mode.value_or(scientific_);
  }

  std::string text(double value) const {
    if (scientific_) return formatted('e', options_.precision, value);
    const std::string digits = formatted('f', whole_ ? 0 : options_.precision, value);
    return whole_ && std::isfinite(value) ? digits + '.' : digits;
  }
  std::string padded(const std::string& text) const {
    return std::string(width_ - std::min(width_, text.size()), ' ') + text;
  }

 private:
  const PrintOptions& options_;
  bool whole_ = true;
  bool scientific_ = false;
  size_t width_ = 1;
};

// One tensor on its way to text: its elements, and the format they all share.
class Printer {
 public:
  Printer(const View& view, const PrintOptions& options)
      : view_(view),
        options_(options),
        summarize_(view.numel > options.threshold),
        format_(options),
        imaginary_(options) {
    choose_format();
  }

  std::string print(int indent) const { return print_dim(0, 0, indent); }

 private:
  // Which positions of a dim are shown; -1 stands for the dots.
  std::vector<int64_t> shown(int dim) const {
    const int64_t size = view_.sizes[dim], edge = options_.edgeitems;
    std::vector<int64_t> result;
    const bool cut = summarize_ && size > 2 * edge;
    for (int64_t i = 0; i < (cut ? edge : size); ++i) result.push_back(i);
    if (!cut) return result;
    result.push_back(-1);
    for (int64_t i = size - edge; i < size; ++i) result.push_back(i);
    return result;
  }

  template <class Body>
  void each_shown(int dim, int64_t offset, const Body& body) const {
    if (dim == view_.dim()) return body(offset);
    for (const int64_t i : shown(dim))
      if (i >= 0) each_shown(dim + 1, offset + i * view_.strides[dim], body);
  }

  // A floating-point number, or a complex one.
  Complex<double> number(int64_t offset) const {
    return visit_element(view_.dtype, [&]<class T>() -> Complex<double> {
      if constexpr (is_complex_type<T>)
        return view_.as<T>()[offset];
      else
        return static_cast<double>(view_.as<T>()[offset]);
    });
  }

  std::string integer(int64_t offset) const {
    if (view_.dtype == kBool) return view_.as<bool>()[offset] ? "True" : "False";
    return visit_element(view_.dtype, [&]<class T>() -> std::string {
      if constexpr (std::is_integral_v<T>) return std::to_string(view_.as<T>()[offset]);
      fail_internal("integer: called for ", view_.dtype);
    });
  }

  void choose_format() {
    if (!is_differentiable(view_.dtype)) {
      each_shown(0, 0, [&](int64_t offset) { format_.widen(integer(offset)); });
      return;
    }
    format_.choose([&](const auto& body) {
      each_shown(0, 0, [&](int64_t offset) { body(number(offset).re); });
    });
    if (!is_complex(view_.dtype)) return;
    imaginary_.choose([&](const auto& body) {
      each_shown(0, 0, [&](int64_t offset) { body(number(offset).im); });
    });
  }

  std::string element(int64_t offset) const {
    if (!is_differentiable(view_.dtype)) return format_.padded(integer(offset));
    const Complex<double> value = number(offset);
    const std::string real = format_.padded(format_.text(value.re));
    if (!is_complex(view_.dtype)) return real;
    const std::string imaginary = imaginary_.text(value.im) + "j";
    return real + (imaginary[0] == '-' ? "" : "+") + imaginary;
  }

  // The distance between the starts of adjacent elements in a row, in characters.
  int64_t element_width() const {
    const size_t imaginary = is_complex(view_.dtype) ? imaginary_.width() + 1 : 0;
    return static_cast<int64_t>(format_.width() + 2 + imaginary);
  }

  std::string print_row(int dim, int64_t offset, int indent) const {
    const int64_t room = options_.linewidth - indent;
    const int64_t per_line = std::max<int64_t>(1, room / element_width());
    std::string text = "[";
    int64_t count = 0;
    for (const int64_t i : shown(dim)) {
      if (count != 0) text += count % per_line == 0 ? ",\n" + std::string(indent + 1, ' ') : ", ";
      text += i < 0 ? " ..." : element(offset + i * view_.strides[dim]);
      ++count;
    }
    return text + "]";
  }

  std::string print_dim(int dim, int64_t offset, int indent) const {
    const int rest = view_.dim() - dim;
    if (rest == 0) return element(offset);
    if (rest == 1) return print_row(dim, offset, indent);
    const std::string separator = "," + std::string(rest - 1, '\n') + std::string(indent + 1, ' ');
    std::string text = "[";
    bool first = true;
    for (const int64_t i : shown(dim)) {
      if (!first) text += separator;
      first = false;
      text += i < 0 ? "..." : print_dim(dim + 1, offset + i * view_.strides[dim], indent + 1);
    }
    return text + "]";
  }

  const View& view_;
  const PrintOptions& options_;
  bool summarize_;
  Format format_;     // of numbers, or of the real parts of complex ones
  Format imaginary_;  // of their imaginary parts
};

// A tuple as Python writes it.
std::string tuple(const Shape& sizes) {
  std::string text = "(";
  for (int i = 0; i < sizes.size(); ++i) append(text, i == 0 ? "" : ", "), append(text, sizes[i]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

std::vector<std::string> suffixes(const Tensor& tensor) {
  std::vector<std::string> result;
  if (!tensor.is_cpu()) result.push_back(concat("device='", tensor.device(), "'"));
  const DType dtype = tensor.dtype();
  const bool blocks = tensor.is_quantized();
  const bool hidden = tensor.is_meta() || tensor.numel() == 0 || blocks;  // nothing tells the dtype
  if (tensor.is_meta() || blocks || (tensor.numel() == 0 && tensor.dim() != 1))
    result.push_back("size=" + tuple(tensor.sizes()));
  const bool usual =
      dtype == default_dtype() ||
      (!hidden && (dtype == kInt64 || dtype == kBool || dtype == complex_dtype(default_dtype())));
  if (!usual) result.push_back(concat("dtype=torch.", dtype));
  if (const std::string name = grad_fn_name(tensor); !name.empty())
    result.push_back("grad_fn=<" + name + ">");
  else if (tensor.requires_grad())
    result.push_back("requires_grad=True");
  return result;
}

}  // namespace

PrintOptions print_options() {
  const std::lock_guard lock(options_mutex);
  return options_value;
}

void set_printoptions(const PrintOptions& options) {
  check(options.precision >= 0 && options.precision <= 1000,
        "set_printoptions: precision must be between 0 and 1000, got ", options.precision);
  check(options.edgeitems >= 0, "set_printoptions: edgeitems must not be negative, got ",
        options.edgeitems);
  check(options.threshold >= 0 && options.linewidth >= 0,
        "set_printoptions: threshold and linewidth must not be negative");
  const std::lock_guard lock(options_mutex);
  options_value = options;
}

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  const PrintOptions options = print_options();
  const std::string prefix = "tensor(";
  const int indent = static_cast<int>(prefix.size());
  std::string text = prefix;
  flush_deferred();
  // Blocks are not shown, and there is no data, or none while traced.
  if (!is_meta() && !impl().view.data) detail::collect_divided(*impl().storage);
  if (is_meta() || is_quantized() || (numel() != 0 && !impl().storage->data())) {
    text += "...";
  } else if (numel() == 0) {
    text += "[]";
  } else {
    const Tensor host = is_cpu() ? *this : detach().cpu();
    host.data_ptr();  // gives a tensor that was deferred its address
    text += Printer(host.view_of_data(), options).print(indent);
  }
  // The two beyond the text's length are PyTorch's, which counts them here too.
  const size_t newline = text.rfind('\n');
  int64_t line = static_cast<int64_t>(text.size()) -
                 (newline == std::string::npos ? -1 : static_cast<int64_t>(newline)) + 1;
  for (const std::string& suffix : suffixes(*this)) {
    const int64_t length = static_cast<int64_t>(suffix.size());
    const bool breaks = line + length + 2 > options.linewidth;
    text += breaks ? ",\n" + std::string(prefix.size(), ' ') : ", ";
    text += suffix;
    line = breaks ? indent + length : line + length + 2;
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << tensor.to_string();
}

}  // namespace tensora
