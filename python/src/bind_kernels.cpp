#include <nanobind/stl/array.h>

#include "python/src/bindings.h"
#include "python/src/kernels.h"
#include "tensora/base/error_kinds.h"
#include "tensora/jit/cuda_kernel.h"
#include "tensora/jit/kernel.h"
#include "tensora/jit/kernel_recording.h"
#include "tensora/tensora.h"

// Kernels that are written in Python: python/tensora/kernels.py.

namespace tensora::python {
namespace {

namespace nb = nanobind;
using jit::Array;
using jit::Index;
using jit::Place;
using jit::Range;
using jit::Tile;

Index index_of(nb::handle object) {
  if (nb::isinstance<Index>(object)) return nb::cast<Index>(object);
  return Index(nb::cast<int64_t>(object));
}

Tile tile_of(nb::handle object, const Tile& beside) {
  if (nb::isinstance<Tile>(object)) return nb::cast<Tile>(object);
  if (nb::isinstance<Index>(object)) return jit::as_tile(nb::cast<Index>(object));
  return jit::number_beside(get<Scalar>(object.ptr()), beside);
}

Place place_of(const Array& array, const nb::object& key) {
  const nb::tuple keys =
      nb::isinstance<nb::tuple>(key) ? nb::cast<nb::tuple>(key) : nb::make_tuple(key);
  std::vector<Array::Span> spans;
  for (nb::handle part : keys) {
    if (nb::isinstance<Range>(part)) {
      spans.emplace_back(nb::cast<Range>(part));
    } else if (nb::isinstance<nb::slice>(part)) {
      for (const char* end : {"start", "stop", "step"})
        check_as<TypeError>(part.attr(end).is_none(),
                            "kernels: a slice of an array is ':'; use block(i, n) or start(k, n)");
      spans.emplace_back(jit::all);
    } else {
      spans.emplace_back(index_of(part));
    }
  }
  return array.place(spans);
}

void bind_integers(nb::module_& module) {
  using Both = Index (*)(const Index&, const Index&);
  nb::class_<Index> index(module, "_KernelIndex", "An integer that is known when the kernel runs.");
  const auto binary = [&](const char* name, const char* reflected, Both op) {
    index.def(name, [op](const Index& a, nb::handle b) { return op(a, index_of(b)); });
    index.def(reflected, [op](const Index& a, nb::handle b) { return op(index_of(b), a); });
  };
  binary("__add__", "__radd__", jit::operator+);
  binary("__sub__", "__rsub__", jit::operator-);
  binary("__mul__", "__rmul__", jit::operator*);
  binary("__floordiv__", "__rfloordiv__", jit::operator/);
  binary("__mod__", "__rmod__", jit::operator%);
  module.def("_kernel_smaller",
             [](nb::handle a, nb::handle b) { return smaller(index_of(a), index_of(b)); });
  module.def("_kernel_larger",
             [](nb::handle a, nb::handle b) { return larger(index_of(a), index_of(b)); });
  // NOLINTNEXTLINE(bugprone-unused-raii): registers the class
  nb::class_<Range>(module, "_KernelRange", "Part of a dim of an array.");
  module.def(
      "_kernel_range",
      [](nb::handle start, int64_t extent, nb::handle limit) {
        Range range{index_of(start), extent};
        if (!limit.is_none()) range.limit = index_of(limit);
        return range;
      },
      nb::arg("start"), nb::arg("extent"), nb::arg("limit").none());
}

void bind_tiles(nb::module_& module) {
  // NOLINTNEXTLINE(bugprone-unused-raii): registers the class
  nb::class_<Place>(module, "_KernelPlace", "Part of an array.");
  nb::class_<Array>(module, "_KernelArray", "A tensor, when the kernel is called.")
      .def_prop_ro("dtype", &Array::dtype)
      .def_prop_ro("ndim", &Array::dim)
      .def("size", &Array::size)
      .def("__getitem__", place_of);
  nb::class_<Tile>(module, "_KernelTile", "Values on the chip.")
      .def_prop_ro("dtype", &Tile::dtype)
      .def_prop_ro("shape", [](const Tile& t) { return nb::make_tuple(t.rows(), t.columns()); })
      .def("to", &Tile::as)
      .def("set", [](const Tile& t, nb::handle value) { t.set(tile_of(value, t)); });
  module.def("_kernel_op", [](const std::string& name, const nb::list& operands) {
    std::optional<Tile> first;
    for (nb::handle operand : operands)
      if (!first && nb::isinstance<Tile>(operand)) first = nb::cast<Tile>(operand);
    check_as<TypeError>(first.has_value(), "kernels: ", name, " needs a tile");
    std::vector<Tile> tiles;
    for (nb::handle operand : operands) tiles.push_back(tile_of(operand, *first));
    return jit::op(name, tiles);
  });
  module.def("_kernel_reduce", &jit::reduce);
  module.def("_kernel_dot", &jit::dot);
  module.def("_kernel_transposed", &jit::transposed);
  module.def("_kernel_column", &jit::column);
  module.def("_kernel_positions", &jit::positions);
  module.def("_kernel_as_tile", [](nb::handle index) { return jit::as_tile(index_of(index)); });
  module.def("_kernel_full", [](nb::handle place, nb::handle number, DType dtype) {
    const auto value = get<Scalar>(number.ptr());
    if (nb::isinstance<Place>(place)) return Tile::full(nb::cast<Place>(place), value, dtype);
    const auto [rows, columns] = nb::cast<std::pair<int64_t, int64_t>>(place);
    return Tile::full(rows, columns, value, dtype);
  });
  module.def("_kernel_uniform", &jit::uniform);
  module.def("_kernel_normal", &jit::normal);
}

void bind_statements(nb::module_& module) {
  module.def("_kernel_program", [](nb::handle count) { return jit::program(index_of(count)); });
  module.def("_kernel_load", &jit::load);
  module.def("_kernel_store", &jit::store);
  module.def("_kernel_atomic_add", &jit::atomic_add);
  module.def("_kernel_begin_loop", [](nb::handle begin, nb::handle end, nb::handle step) {
    return jit::KernelRecording::current("tiles").begin_loop(index_of(begin), index_of(end),
                                                             index_of(step));
  });
  module.def("_kernel_end_loop", [] { jit::KernelRecording::current("tiles").end_loop(); });
  module.def("_kernel_tunable", [](const std::string& name, const std::vector<int64_t>& list) {
    return jit::tunable(name, list);
  });
}

}  // namespace

void bind_kernels(nb::module_& module) {
  bind_integers(module);
  bind_tiles(module);
  bind_statements(module);
  nb::class_<jit::AnyKernel>(module, "_Kernel")
      .def("__init__",
           [](jit::AnyKernel* place, const std::string& name, nb::callable body) {
             // The last reference may be dropped by a thread that does not hold the GIL.
             const std::shared_ptr<nb::callable> held(new nb::callable(std::move(body)),
                                                      [](nb::callable* callable) {
                                                        const nb::gil_scoped_acquire gil;
                                                        delete callable;
                                                      });
             new (place) jit::AnyKernel(
                 name, [held](std::span<const Array> arrays, std::span<const Scalar>) {
                   const nb::gil_scoped_acquire gil;
                   nb::list list;
                   for (const Array& array : arrays) list.append(nb::cast(array));
                   (*held)(list);
                 });
           })
      .def("run",
           [](const jit::AnyKernel& kernel, const std::vector<Tensor>& tensors) {
             const ReleaseGil free;
             kernel.run(tensors);
           })
      .def("describe", [](const jit::AnyKernel& kernel, const std::vector<Tensor>& tensors) {
        return kernel.describe(tensors);
      });
  module.def("_run_cuda_kernel",
             [](const std::string& source, const std::string& name, std::array<unsigned, 3> blocks,
                std::array<unsigned, 3> threads, unsigned shared_bytes, const nb::list& args) {
               std::vector<jit::CudaArgument> list;
               for (nb::handle arg : args) {
                 if (nb::isinstance<nb::float_>(arg))
                   list.emplace_back(nb::cast<float>(arg));
                 else if (nb::isinstance<nb::int_>(arg))
                   list.emplace_back(nb::cast<int64_t>(arg));
                 else
                   list.emplace_back(nb::cast<Tensor>(arg));
               }
               jit::cuda_kernel(source, name)
                   .run({.blocks = {blocks[0], blocks[1], blocks[2]},
                         .threads = {threads[0], threads[1], threads[2]},
                         .shared_bytes = shared_bytes},
                        list);
             });
}

}  // namespace tensora::python
