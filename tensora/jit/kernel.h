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
#include <optional>
#include <tuple>
#include <type_traits>

#include "tensora/jit/block_program.h"

namespace tensora::jit {

class KernelRecording;
class Tile;

/// An integer of a kernel: the number of a program, a size, a loop counter, or arithmetic on them.
/// Its value is known when the kernel runs.
class Index {
 public:
  Index(int64_t value) : value_(value) {}
  Index(int value) : value_(value) {}

  // The parts of the recording.
  Index(KernelRecording* recording, int number) : recording_(recording), number_(number) {}
  KernelRecording* recording() const { return recording_; }
  int number() const { return number_; }
  int64_t value() const { return value_; }

 private:
  KernelRecording* recording_ = nullptr;  // null: a constant
  int number_ = -1;
  int64_t value_ = 0;
};
Index operator+(const Index& a, const Index& b);
Index operator-(const Index& a, const Index& b);
Index operator*(const Index& a, const Index& b);
/// Rounds down.
Index operator/(const Index& a, const Index& b);
Index operator%(const Index& a, const Index& b);
Index smaller(const Index& a, const Index& b);
Index larger(const Index& a, const Index& b);
/// a / b, rounded up.
Index ceil_div(const Index& a, const Index& b);

/// All elements of a dim.
struct All {};
inline constexpr All all;

/// Part of a dim: `extent` elements from `start` on, of which those exist that the array has.
struct Range {
  Index start;
  int64_t extent;
  std::optional<Index> limit = std::nullopt;  // elements from there on do not count either
};
/// Block number `i` of `extent` elements each.
inline Range block(const Index& i, int64_t extent) { return {i * extent, extent}; }
/// `extent` elements from `start` on, up to `limit`.
inline Range from(const Index& start, int64_t extent) { return {start, extent}; }
inline Range from(const Index& start, int64_t extent, const Index& limit) {
  return {start, extent, limit};
}

/// Part of an array: what one program reads or writes.
struct Place {
  KernelRecording* recording;
  BlockPlace place;
};

/// A parameter of a kernel: a tensor when it is called.
class Array {
 public:
  Array(KernelRecording* recording, int number) : recording_(recording), number_(number) {}
  Index size(int64_t dim) const;
  int dim() const;
  DType dtype() const;

  /// What is taken of a dim: one element (Index), a Range, or all.
  class Span {
   public:
    Span(const Index& index) : index_(index) {}
    Span(int index) : index_(index) {}
    Span(int64_t index) : index_(index) {}
    Span(Range range) : range_(range) {}
    Span(All) : whole_(true) {}

   private:
    friend class KernelRecording;
    std::optional<Index> index_ = std::nullopt;
    std::optional<Range> range_ = std::nullopt;
    bool whole_ = false;
  };
  /// One span per dim. At most two of them are not a single element: these are the tile's dims.
  template <class... Spans>
  Place operator()(const Spans&... spans) const {
    const Span list[] = {Span(spans)...};
    return place(list);
  }
  Place place(std::span<const Span> spans) const;

 private:
  KernelRecording* recording_;
  int number_;
};

/// Values on the chip: a number, a row of them, or a matrix. A tile knows its bounds: at the edge
/// of an array it has fewer elements than it has room for, and reductions, products and stores take
/// those that exist. Copies of a Tile are the same values: what `set` and `+=` change is changed
/// for all of them.
class Tile {
 public:
  /// Zeros of that many rows and columns, or in the bounds of a place.
  static Tile zeros(int64_t rows, int64_t columns, DType dtype = DType::float32);
  static Tile zeros(const Place& place, DType dtype = DType::float32);
  static Tile full(int64_t rows, int64_t columns, Scalar number, DType dtype = DType::float32);
  static Tile full(const Place& place, Scalar number, DType dtype = DType::float32);

  DType dtype() const;
  /// How many rows and columns it has room for.
  int64_t rows() const;
  int64_t columns() const;
  /// The same values in another dtype, converted as Tensor::to converts.
  Tile as(DType dtype) const;
  /// Changes the values, in loops the way to carry one from an iteration to the next. Converted to
  /// the dtype of this tile. Elements outside the bounds of `value` stay as they were.
  void set(const Tile& value) const;
  const Tile& operator+=(const Tile& value) const;
  const Tile& operator-=(const Tile& value) const;
  const Tile& operator*=(const Tile& value) const;

  // The parts of the recording.
  Tile(KernelRecording* recording, int value) : recording_(recording), value_(value) {}
  KernelRecording* recording() const { return recording_; }
  int value() const { return value_; }

 private:
  KernelRecording* recording_;
  int value_;
};

/// A dim of the grid: the kernel runs once for each number below `count`, in any order, many at a
/// time. At most three, before the first load.
Index program(const Index& count);
/// Reads part of an array.
Tile load(const Place& place);
/// Writes values, in the array's dtype.
void store(const Place& place, const Tile& value);
/// Adds values to those of an array; other programs may do the same at the same time. The order of
/// additions is not fixed; in deterministic mode it is.
void atomic_add(const Place& place, const Tile& value);
/// Runs `body` for begin, begin + step, … below end. It is recorded once: tiles that it makes are
/// gone after it, and `set` carries values on.
void loop(const Index& begin, const Index& end, const Index& step,
          const std::function<void(Index)>& body);
/// One of the candidates: the fastest, found by timing the first calls. The first one when
/// deterministic.
int64_t tunable(std::string_view name, std::initializer_list<int64_t> candidates);
int64_t tunable(std::string_view name, std::span<const int64_t> candidates);

/// The number of each element's column in its tile (axis 1, the default) or of its row (axis 0),
/// as int64, in a tile of one row or one column.
Tile positions(const Tile& tile, int axis = 1);
/// The integer as an int64 tile of one element.
Tile as_tile(const Index& index);
/// The matrix product. 16-bit and 32-bit floats accumulate in float32, which is the result's
/// dtype; float64 in float64, integers in int32.
Tile dot(const Tile& a, const Tile& b);
/// Rows become columns.
Tile transposed(const Tile& tile);
/// A row as a column.
Tile column(const Tile& row);
/// Random numbers for the elements of a place: element i of the array gets the number that
/// `uniform_` and `normal_` give it with this seed and offset, whatever the tiles are. float32.
Tile uniform(const Place& place, uint64_t seed, uint64_t offset = 0);
Tile normal(const Place& place, uint64_t seed, uint64_t offset = 0);

/// A pointwise op of the library by its name, with its default attributes: op("erf", {x}).
Tile op(std::string_view name, std::span<const Tile> operands);
Tile op(std::string_view name, std::initializer_list<Tile> operands);
/// The same with a number as the last operand.
Tile op(std::string_view name, const Tile& operand, Scalar number);
Tile op(std::string_view name, Scalar number, const Tile& operand);
/// A reduction by the library's op of that name, of each row (axis 1) or each column (axis 0).
Tile reduce(std::string_view name, const Tile& tile, int axis = 1);

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
inline Tile where(const Tile& condition, const Tile& x, Scalar y) {
  return where(condition, x, Tile::full(1, 1, y, x.dtype()));
}
inline Tile operator-(const Tile& x) { return op("neg", {x}); }
inline Tile operator+(const Tile& x, const Tile& y) { return op("add", {x, y}); }
inline Tile operator-(const Tile& x, const Tile& y) { return op("sub", {x, y}); }
inline Tile operator*(const Tile& x, const Tile& y) { return op("mul", {x, y}); }
inline Tile operator/(const Tile& x, const Tile& y) { return op("div", {x, y}); }
inline Tile operator<(const Tile& x, const Tile& y) { return op("lt", {x, y}); }
inline Tile operator>(const Tile& x, const Tile& y) { return op("gt", {x, y}); }
inline Tile operator<=(const Tile& x, const Tile& y) { return op("le", {x, y}); }
inline Tile operator>=(const Tile& x, const Tile& y) { return op("ge", {x, y}); }
inline Tile operator==(const Tile& x, const Tile& y) { return op("eq", {x, y}); }
inline Tile operator!=(const Tile& x, const Tile& y) { return op("ne", {x, y}); }
inline Tile operator&(const Tile& x, const Tile& y) { return op("logical_and", {x, y}); }
inline Tile operator|(const Tile& x, const Tile& y) { return op("logical_or", {x, y}); }
inline Tile operator+(const Tile& x, Scalar y) { return op("add", x, y); }
inline Tile operator-(const Tile& x, Scalar y) { return op("sub", x, y); }
inline Tile operator*(const Tile& x, Scalar y) { return op("mul", x, y); }
inline Tile operator/(const Tile& x, Scalar y) { return op("div", x, y); }
inline Tile operator<(const Tile& x, Scalar y) { return op("lt", x, y); }
inline Tile operator>(const Tile& x, Scalar y) { return op("gt", x, y); }
inline Tile operator<=(const Tile& x, Scalar y) { return op("le", x, y); }
inline Tile operator>=(const Tile& x, Scalar y) { return op("ge", x, y); }
inline Tile operator==(const Tile& x, Scalar y) { return op("eq", x, y); }
inline Tile operator!=(const Tile& x, Scalar y) { return op("ne", x, y); }
inline Tile operator+(Scalar x, const Tile& y) { return op("add", x, y); }
inline Tile operator-(Scalar x, const Tile& y) { return op("sub", x, y); }
inline Tile operator*(Scalar x, const Tile& y) { return op("mul", x, y); }
inline Tile operator/(Scalar x, const Tile& y) { return op("div", x, y); }
inline Tile sum(const Tile& tile, int axis = 1) { return reduce("sum", tile, axis); }
inline Tile mean(const Tile& tile, int axis = 1) { return reduce("mean", tile, axis); }
inline Tile max(const Tile& tile, int axis = 1) { return reduce("amax", tile, axis); }
inline Tile min(const Tile& tile, int axis = 1) { return reduce("amin", tile, axis); }

/// A kernel without the types of its parameters: what bindings and ops (kernel_op.h) call.
class AnyKernel {
 public:
  using Function =
      std::function<void(std::span<const Array> arrays, std::span<const Scalar> numbers)>;
  AnyKernel(std::string name, Function body);

  /// Records the body for these arguments and runs it.
  void run(std::span<const Tensor> tensors, std::span<const Scalar> numbers = {}) const;
  /// The same on memory; the caller owns what else a tensor has: gradients and version counters.
  /// Returns the arrays that were written.
  std::vector<int> run_on(std::span<const View> arrays, std::span<const Scalar> numbers) const;
  /// What the body records for these arguments, as text.
  std::string describe(std::span<const Tensor> tensors, std::span<const Scalar> numbers = {}) const;
  /// The program itself, with the first candidate of each tunable.
  BlockProgram record(std::span<const Tensor> tensors, std::span<const Scalar> numbers = {}) const;
  const std::string& name() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

namespace detail {

template <class T>
inline constexpr bool is_array = std::is_same_v<T, Array>;

template <class Body>
struct KernelParameters;
template <class C, class R, class... P>
struct KernelParameters<R (C::*)(P...) const> {
  static constexpr bool all_known = ((is_array<P> || std::is_arithmetic_v<P>)&&...);
  static constexpr size_t count = sizeof...(P);

  template <class Body>
  static void call(const Body& body, std::span<const Array> given,
                   std::span<const Scalar> numbers) {
    size_t array = 0, number = 0;
    const auto pass = [&]<class Parameter>(std::type_identity<Parameter>) {
      if constexpr (is_array<Parameter>)
        return given[array++];
      else
        return numbers[number++].template to<Parameter>();
    };
    // In braces: evaluated from left to right.
    std::apply(body, std::tuple<P...>{pass(std::type_identity<P>{})...});
  }
};

}  // namespace detail

/// A kernel of a user: call it with a tensor for each Array and a number for each number. The
/// tensors are on one device, the CPU or CUDA. Results are written to the arrays that the kernel
/// stores to; nothing is recorded for gradients.
template <class Body>
class Kernel : public AnyKernel {
 public:
  using Parameters = detail::KernelParameters<decltype(&Body::operator())>;
  Kernel(std::string name, Body body)
      : AnyKernel(std::move(name), [body = std::move(body)](std::span<const Array> arrays,
                                                            std::span<const Scalar> numbers) {
          Parameters::call(body, arrays, numbers);
        }) {}

  template <class... Args>
  void operator()(const Args&... args) const {
    static_assert(Parameters::count == sizeof...(Args),
                  "as many arguments as the kernel has parameters");
    std::vector<Tensor> tensors;
    std::vector<Scalar> numbers;
    const auto collect = [&](const auto& arg) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(arg)>>)
        numbers.emplace_back(arg);
      else
        tensors.emplace_back(arg);
    };
    (collect(args), ...);
    run(tensors, numbers);
  }
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
