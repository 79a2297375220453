#pragma once

// Kernels that a program writes itself, in C++: docs/write-a-kernel.md.
//
//   auto softmax = jit::kernel("softmax", [](jit::Array x, jit::Array y) {
//     const jit::Index row = jit::program(x.size(0));
//     const jit::Tile v = load(x(row, jit::all)).as(kFloat32), e = exp(v - max(v));
//     store(y(row, jit::all), e / sum(e));
//   });
//   softmax(input, output);

#include <functional>
#include <tuple>
#include <type_traits>

#include "tensora/jit/tile_kernel.h"

namespace tensora::jit {

class Recording;
class Size;
class Tile;

/// The number of a row: what tells the instances of a kernel apart.
class Index {
 private:
  friend class Array;
  friend Index program(const Size& rows);
  explicit Index(Recording* recording) : recording_(recording) {}
  Recording* recording_;
};

/// All elements of a dim.
struct All {};
inline constexpr All all;

/// The size of an array's dim, which is known when the kernel is called.
class Size {
 private:
  friend class Array;
  friend Index program(const Size& rows);
  Size(Recording* recording, int array, int64_t dim)
      : recording_(recording), array_(array), dim_(dim) {}
  Recording* recording_;
  int array_;
  int64_t dim_;
};

/// Part of an array: what one instance of a kernel reads or writes.
class Place {
 private:
  friend class Array;
  friend Tile load(const Place& place);
  friend void store(const Place& place, const Tile& value);
  enum class Kind : uint8_t { row, element_of_row, shared_row };
  Place(Recording* recording, int array, Kind kind)
      : recording_(recording), array_(array), kind_(kind) {}
  Recording* recording_;
  int array_;
  Kind kind_;
};

/// A parameter of a kernel: a tensor when it is called.
class Array {
 public:
  Array(Recording* recording, int number) : recording_(recording), number_(number) {}
  /// Only for program().
  Size size(int64_t dim) const { return {recording_, number_, dim}; }
  DType dtype() const;
  /// A row of a matrix.
  Place operator()(const Index& row, All) const { return make(row, Place::Kind::row); }
  /// One element per row.
  Place operator()(const Index& row) const { return make(row, Place::Kind::element_of_row); }
  /// A vector as long as a row, the same for all rows.
  Place operator()(All) const { return {recording_, number_, Place::Kind::shared_row}; }

 private:
  Place make(const Index& row, Place::Kind kind) const;
  Recording* recording_;
  int number_;
};

/// Values on the chip: those of a row, or one for the row.
class Tile {
 public:
  DType dtype() const;
  /// The same values in another dtype, converted as Tensor::to converts.
  Tile as(DType dtype) const;

  // The parts of the recording.
  Tile(Recording* recording, int value) : recording_(recording), value_(value) {}
  Recording* recording() const { return recording_; }
  int value() const { return value_; }

 private:
  Recording* recording_;
  int value_;
};

/// Begins a kernel: it runs once for each of `rows` rows, in any order, many at a time.
Index program(const Size& rows);
/// Reads a row, a shared row, or the one element of a row.
Tile load(const Place& place);
/// Writes values, in the array's dtype. Each place is written once.
void store(const Place& place, const Tile& value);
/// The position of each element in its row, as int64.
Tile positions(const Tile& row);

/// A pointwise op of the library by its name, with its default attributes: op("erf", {x}).
Tile op(std::string_view name, std::initializer_list<Tile> operands);
/// The same with a number as the last operand.
Tile op(std::string_view name, const Tile& operand, Scalar number);
Tile op(std::string_view name, Scalar number, const Tile& operand);
/// A reduction of a row by the library's op of that name.
Tile reduce(std::string_view name, const Tile& row);

// In namespace tensora::jit: found through the arguments.
inline Tile exp(const Tile& x) { return op("exp", {x}); }
inline Tile log(const Tile& x) { return op("log", {x}); }
inline Tile sqrt(const Tile& x) { return op("sqrt", {x}); }
inline Tile rsqrt(const Tile& x) { return op("rsqrt", {x}); }
inline Tile abs(const Tile& x) { return op("abs", {x}); }
inline Tile round(const Tile& x) { return op("round", {x}); }
inline Tile tanh(const Tile& x) { return op("tanh", {x}); }
inline Tile sigmoid(const Tile& x) { return op("sigmoid", {x}); }
inline Tile silu(const Tile& x) { return op("silu", {x}); }
inline Tile relu(const Tile& x) { return op("relu", {x}); }
inline Tile gelu(const Tile& x) { return op("gelu", {x}); }
inline Tile maximum(const Tile& x, const Tile& y) { return op("maximum", {x, y}); }
inline Tile minimum(const Tile& x, const Tile& y) { return op("minimum", {x, y}); }
inline Tile where(const Tile& condition, const Tile& x, const Tile& y) {
  return op("where", {condition, x, y});
}
inline Tile operator-(const Tile& x) { return op("neg", {x}); }
inline Tile operator+(const Tile& x, const Tile& y) { return op("add", {x, y}); }
inline Tile operator-(const Tile& x, const Tile& y) { return op("sub", {x, y}); }
inline Tile operator*(const Tile& x, const Tile& y) { return op("mul", {x, y}); }
inline Tile operator/(const Tile& x, const Tile& y) { return op("div", {x, y}); }
inline Tile operator<(const Tile& x, const Tile& y) { return op("lt", {x, y}); }
inline Tile operator>(const Tile& x, const Tile& y) { return op("gt", {x, y}); }
inline Tile operator+(const Tile& x, Scalar y) { return op("add", x, y); }
inline Tile operator-(const Tile& x, Scalar y) { return op("sub", x, y); }
inline Tile operator*(const Tile& x, Scalar y) { return op("mul", x, y); }
inline Tile operator/(const Tile& x, Scalar y) { return op("div", x, y); }
inline Tile operator<(const Tile& x, Scalar y) { return op("lt", x, y); }
inline Tile operator>(const Tile& x, Scalar y) { return op("gt", x, y); }
inline Tile operator+(Scalar x, const Tile& y) { return op("add", x, y); }
inline Tile operator-(Scalar x, const Tile& y) { return op("sub", x, y); }
inline Tile operator*(Scalar x, const Tile& y) { return op("mul", x, y); }
inline Tile operator/(Scalar x, const Tile& y) { return op("div", x, y); }
inline Tile sum(const Tile& row) { return reduce("sum", row); }
inline Tile mean(const Tile& row) { return reduce("mean", row); }
inline Tile max(const Tile& row) { return reduce("amax", row); }
inline Tile min(const Tile& row) { return reduce("amin", row); }

namespace detail {

/// Records a kernel and runs it on tensors. `body` gets the arrays.
void run_kernel(std::string_view name, std::span<const Tensor> tensors,
                const std::function<void(std::span<const Array>)>& body);

template <class T>
inline constexpr bool is_array = std::is_same_v<T, Array>;

template <class Body>
struct KernelParameters;
template <class C, class R, class... P>
struct KernelParameters<R (C::*)(P...) const> {
  static constexpr bool all_known = ((is_array<P> || std::is_arithmetic_v<P>)&&...);

  template <class Body, class... Args>
  static void call(std::string_view name, const Body& body, const Args&... args) {
    static_assert(sizeof...(P) == sizeof...(Args),
                  "as many arguments as the kernel has parameters");
    std::vector<Tensor> tensors;
    const auto collect = [&]<class Parameter>(std::type_identity<Parameter>, const auto& arg) {
      if constexpr (is_array<Parameter>) tensors.push_back(arg);
    };
    (collect(std::type_identity<P>{}, args), ...);
    run_kernel(name, tensors, [&](std::span<const Array> arrays) {
      size_t next = 0;
      const auto pass = [&]<class Parameter>(std::type_identity<Parameter>, const auto& arg) {
        if constexpr (is_array<Parameter>)
          return arrays[next++];
        else
          return static_cast<Parameter>(arg);
      };
      // In braces: evaluated from left to right.
      std::apply(body, std::tuple<P...>{pass(std::type_identity<P>{}, args)...});
    });
  }
};

}  // namespace detail

/// A kernel of a user: call it with a tensor for each Array and a number for each number. The
/// tensors are on one device, the CPU or CUDA. Results are written to the arrays that the kernel
/// stores to; nothing is recorded for gradients.
template <class Body>
class Kernel {
 public:
  Kernel(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  template <class... Args>
  void operator()(const Args&... args) const {
    detail::KernelParameters<decltype(&Body::operator())>::call(name_, body_, args...);
  }

 private:
  std::string name_;
  Body body_;
};

/// `body` is a function of Arrays and numbers, whose statements are recorded at every call and
/// compiled at the first one with these dtypes. Numbers are parameters of the compiled kernel.
template <class Body>
Kernel<Body> kernel(std::string name, Body body) {
  static_assert(detail::KernelParameters<decltype(&Body::operator())>::all_known,
                "the parameters of a kernel are jit::Array and numbers");
  return {std::move(name), std::move(body)};
}

}  // namespace tensora::jit
