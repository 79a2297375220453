#include "tensora/jit/tile_text.h"

#include "tensora/jit/row_ops.h"

// Note [Printed programs]
// A kernel's arithmetic is the functors' own code: the headers are embedded in the library as text
// and included by the kernel. What is printed here is only the wiring: which functor reads which
// value, in which type. Values are rounded to the dtypes in which eager ops would have stored them.
// Attributes are parameters of the launch: the functor objects themselves, byte for byte.

namespace tensora::jit {
namespace {

using Step = TileProgram::Step;

/// Writes the text of one program.
class Printer {
 public:
  Printer(const TileProgram& program, const TileLayout& layout)
      : program_(program),
        layout_(layout),
        rows_(program.kind == TileProgram::Kind::rows),
        items_(layout.pack * layout.packs) {
    int next = 0;
    for (const TileProgram::Input& input : program.inputs)
      numbers_.push_back(input.host ? next++ : -1);
    for (const Step& step : program.steps)
      numbers_.push_back(step.kind == Step::Kind::number ? next++ : -1);
  }

  std::string text() {
    includes();
    functors();
    add("constexpr int V = ", layout_.pack, ", P = ", layout_.packs, ", N = ", items_,
        ", T = ", layout_.threads, ", G = ", layout_.group, ";\n",
        "constexpr bool once = ", layout_.once ? "true" : "false",
        ", full = ", layout_.full ? "true" : "false", ";\n\n",
        "extern \"C\" __global__ void __launch_bounds__(T)\ntile(const __grid_constant__ ",
        "TileParams<", layout_.arrays, "> params, const __grid_constant__ Functors f) {\n");
    numbers();
    rows_ ? row_kernel() : walk_kernel();
    add("}\n");
    return std::move(out_);
  }

 private:
  template <class... Parts>
  void add(const Parts&... parts) {
    out_ += concat(parts...);
  }
  std::string_view type(int value) const { return element_type(program_.dtype_of(value)); }
  bool is_row_value(int value) const {
    return numbers_[static_cast<size_t>(value)] >= 0 || program_.extent_of(value) == Extent::row;
  }
  /// The value as an operand: element k of a thread's, or the one for all.
  std::string read(int value) const {
    return is_row_value(value) ? concat("v", value) : concat("v", value, "[k]");
  }

  void includes() {
    std::set<std::string_view> headers = {"tensora/backend/cuda/loops/tile.cuh"};
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::pointwise) add_headers(*step.op, step.compute_dtype, headers);
      if (step.kind == Step::Kind::reduce) {
        headers.insert("tensora/ops/reduce/sum_functors.h");
        headers.insert("tensora/ops/reduce/extremum_functors.h");
      }
    }
    for (std::string_view header : headers) add("#include \"", header, "\"\n");
    add("\nusing namespace tensora;\nusing namespace tensora::cuda;\n\n");
  }

  void functors() {
    add("struct Functors {\n");
    for (size_t i = 0; i < program_.steps.size(); ++i)
      if (program_.steps[i].kind == Step::Kind::pointwise)
        add("  alignas(16) ", find_functor(*program_.steps[i].op)->type, " f", i, ";\n");
    add("  alignas(16) char end;\n};\n\n");
  }

  void numbers() {
    for (int value = 0; value < program_.value_count(); ++value)
      if (const int number = numbers_[static_cast<size_t>(value)]; number >= 0)
        add("  const auto v", value, " = number<", type(value), ">(params.numbers[", number,
            "]);\n");
  }

  // Calls body(value, array, access) for each array that is read.
  template <class Body>
  void each_input(Body&& body) const {
    auto array = static_cast<int>(program_.results.size());
    for (int i = 0; i < program_.input_count(); ++i)
      if (!program_.inputs[static_cast<size_t>(i)].host) {
        body(i, array, layout_.access[static_cast<size_t>(array)]);
        ++array;
      }
  }

  // ---- walks -----------------------------------------------------------------------------------

  void walk_kernel() {
    add("  unsigned index[P];\n  int valid[P], at[P][", layout_.arrays, "];\n",
        "#pragma unroll\n  for (int p = 0; p < P; ++p) {\n",
        "    index[p] = (blockIdx.x * P + p) * T + threadIdx.x;\n",
        "    valid[p] = index[p] < params.count ? V : index[p] == params.count ? ",
        "static_cast<int>(params.tail) : 0;\n",
        "    params.walk.offsets(valid[p] > 0 ? index[p] : 0, at[p]);\n  }\n",
        "  if (valid[0] == 0) return;\n");
    each_input([&](int value, int array, char access) {
      const std::string place = concat("params.data[", array, "] + at[p][", array, "]");
      add("  Pack<", type(value), ", ", access == 'r' ? "1" : "V", "> raw", value,
          "[P];\n#pragma unroll\n  for (int p = 0; p < P; ++p)\n    raw", value, "[p] = ");
      if (access == 'v')
        add("load_group<", type(value), ", V, once>(", place, ", valid[p]);\n");
      else if (access == 'r')
        add("*reinterpret_cast<const Pack<", type(value), ", 1>*>(", place, ");\n");
      else
        add("gather_group<", type(value), ", V>(", place, ", params.steps[", array,
            "], valid[p]);\n");
    });
    each_input([&](int value, int, char access) {
      add("  value_t<", type(value), "> v", value, "[N];\n#pragma unroll\n",
          "  for (int p = 0; p < P; ++p)\n");
      if (access == 'r')
        add("    for (int i = 0; i < V; ++i) v", value, "[p * V + i] = load_value<value_t<",
            type(value), ">>(raw", value, "[p].items[0]);\n");
      else
        add("    unpack(raw", value, "[p], v", value, " + p * V);\n");
    });
    for (size_t i = 0; i < program_.steps.size(); ++i) step(i, "  ");
    add("#pragma unroll\n  for (int p = 0; p < P; ++p) {\n");
    for (size_t i = 0; i < program_.results.size(); ++i) {
      const int value = program_.results[i];
      const std::string place = concat("params.data[", i, "] + at[p][", i, "]");
      const std::string values = whole(value, "p");
      if (layout_.access[i] == 'v')
        add("    if (valid[p] > 0) store_group<", type(value), ", V, once>(", place, ", ", values,
            ", valid[p]);\n");
      else
        add("    if (valid[p] > 0) scatter_group<", type(value), ", V>(", place, ", params.steps[",
            i, "], ", values, ", valid[p]);\n");
    }
    add("  }\n");
  }
  // A thread's elements of pack p as an array.
  std::string whole(int value, std::string_view pack) {
    if (!is_row_value(value)) return concat("v", value, " + ", pack, " * V");
    return concat("repeated<V>(v", value, ").items");
  }

  // ---- rows ------------------------------------------------------------------------------------

  void row_kernel() {
    add("  const RowPlaces<N, V, G, full> places{params.length, static_cast<int>(threadIdx.x % "
        "G)};\n");
    each_input([&](int value, int array, char access) {
      if (access == 'w') load_row(value, array, access, "  ");
    });
    add("  for (unsigned row = blockIdx.x * (T / G) + threadIdx.x / G; row < params.count;\n",
        "       row += gridDim.x * (T / G)) {\n    int at[", layout_.arrays,
        "];\n    params.walk.offsets(row, at);\n");
    each_input([&](int value, int array, char access) {
      if (access == 'r')
        add("    const ", type(value), " raw", value, " = *reinterpret_cast<const ", type(value),
            "*>(params.data[", array, "] + at[", array, "]);\n");
      else if (access != 'w' && access != 'm')
        load_row(value, array, access, "    ");
    });
    each_input([&](int value, int, char access) {
      if (access == 'r')
        add("    const auto v", value, " = load_value<value_t<", type(value), ">>(raw", value,
            ");\n");
      else if (access != 'm')
        unpack_row(value);
    });
    std::set<int> loaded;
    const auto load_late = [&](int wanted) {
      each_input([&](int value, int array, char access) {
        if (value != wanted || access != 'm' || !loaded.insert(value).second) return;
        load_row(value, array, access, "    ");
        unpack_row(value);
      });
    };
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      // From the cache, when they are needed: until then they would take registers.
      for (int operand : program_.steps[i].operands) load_late(operand);
      step(i, "    ");
    }
    for (int result : program_.results) load_late(result);
    for (size_t i = 0; i < program_.results.size(); ++i) store_row(i);
    if (layout_.group > 32) add("    __syncthreads();\n");
    add("  }\n");
  }

  void unpack_row(int value) {
    add("    value_t<", type(value), "> v", value,
        "[N];\n#pragma unroll\n    for (int p = 0; p < P; ++p) unpack(raw", value, "[p], v", value,
        " + p * V);\n");
  }

  void load_row(int value, int array, char access, std::string_view indent) {
    const std::string place = access == 'w' || access == 'm'
                                  ? concat("params.data[", array, "]")
                                  : concat("params.data[", array, "] + at[", array, "]");
    add(indent, "Pack<", type(value), ", V> raw", value, "[P];\n#pragma unroll\n", indent,
        "for (int p = 0; p < P; ++p)\n", indent, "  raw", value, "[p] = ");
    if (access == 's')
      add("gather_group<", type(value), ", V>(", place,
          " + static_cast<long long>(places.first(p)) * params.steps[", array, "], params.steps[",
          array, "], places.valid(p));\n");
    else
      add("load_group<", type(value), ", V, ", access == 'v' ? "once" : "false", ">(", place,
          " + places.first(p) * sizeof(", type(value), "), places.valid(p));\n");
  }

  void store_row(size_t i) {
    const int value = program_.results[i];
    const std::string place = concat("params.data[", i, "] + at[", i, "]");
    if (layout_.access[i] == 'r') {
      add("    if (places.lane == 0) *reinterpret_cast<", type(value), "*>(", place,
          ") = store_value<", type(value), ">(", "v", value, ");\n");
      return;
    }
    add("#pragma unroll\n    for (int p = 0; p < P; ++p)\n      ");
    if (layout_.access[i] == 's')
      add("scatter_group<", type(value), ", V>(", place,
          " + static_cast<long long>(places.first(p)) * params.steps[", i, "], params.steps[", i,
          "], ", whole(value, "p"), ", places.valid(p));\n");
    else
      add("store_group<", type(value), ", V, once>(", place, " + places.first(p) * sizeof(",
          type(value), "), ", whole(value, "p"), ", places.valid(p));\n");
  }

  // ---- steps -----------------------------------------------------------------------------------

  void step(size_t i, std::string_view indent) {
    const Step& now = program_.steps[i];
    const int value = program_.input_count() + static_cast<int>(i);
    if (now.kind == Step::Kind::number) return;
    if (now.kind == Step::Kind::reduce) return reduction(now, value, indent);
    const std::string computed = formula(now, i);
    if (is_row_value(value)) {
      add(indent, "const auto v", value, " = rounded<", type(value), ">(", computed, ");\n");
      return;
    }
    add(indent, "value_t<", type(value), "> v", value, "[N];\n", indent, "{\n");
    const std::string_view wide =
        now.kind == Step::Kind::pointwise ? compute_type(now.compute_dtype)
        : now.kind == Step::Kind::cast    ? compute_type(program_.dtype_of(now.operands[0]))
                                          : std::string_view("long");
    add(indent, "  ", wide, " w[N];\n#pragma unroll\n", indent,
        "  for (int k = 0; k < N; ++k) w[k] = ", computed, ";\n", indent, "  round_all<",
        type(value), ">(w, v", value, ");\n", indent, "}\n");
  }

  // Element k of a step, in its compute type.
  std::string formula(const Step& now, size_t i) const {
    if (now.kind == Step::Kind::cast) return read(now.operands[0]);
    if (now.kind == Step::Kind::position)
      return now.extent == Extent::row ? std::string("static_cast<long>(row)")
                                       : "static_cast<long>(places.first(k / V) + k % V)";
    const std::string_view compute = compute_type(now.compute_dtype);
    std::string operands;
    for (int operand : now.operands)
      operands +=
          concat(operands.empty() ? "" : ", ", "static_cast<", compute, ">(", read(operand), ")");
    if (is_half(now.compute_dtype)) return concat("half_value(f.f", i, ", ", operands, ")");
    return concat("static_cast<", compute, ">(f.f", i, ".forward(", operands, "))");
  }

  void reduction(const Step& now, int value, std::string_view indent) {
    const DType from = program_.dtype_of(now.operands[0]);
    const auto [functor, compute, mean] = print_reduction(*now.op, from, now.dtype);
    add(indent, "value_t<", type(value), "> v", value, ";\n", indent, "{\n", indent, "  const ",
        functor, " functor{};\n", indent, "  ", compute, " w[N];\n#pragma unroll\n", indent,
        "  for (int k = 0; k < N; ++k) w[k] = static_cast<", compute, ">(", read(now.operands[0]),
        ");\n", indent, "  const auto lane = reduce_row<", value, ">(functor, places, w);\n");
    if (mean)
      add(indent, "  v", value, " = rounded<", type(value), ">(lane / static_cast<", compute,
          ">(params.length));\n");
    else
      add(indent, "  v", value, " = rounded<", type(value),
          ">(functor.finish(functor.widen(lane)));\n");
    add(indent, "}\n");
  }

  const TileProgram& program_;
  const TileLayout& layout_;
  const bool rows_;
  const int items_;
  std::vector<int> numbers_;  // per value: its place among the numbers of the launch, or -1
  std::string out_;
};

}  // namespace

std::string_view element_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::uint8:
      return "unsigned char";
    case DType::int8:
      return "signed char";
    case DType::int16:
      return "short";
    case DType::int32:
      return "int";
    case DType::int64:
      return "long";
    case DType::float16:
      return "Half";
    case DType::bfloat16:
      return "BFloat16";
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    default:
      fail_internal("jit: a kernel was asked for ", dtype);
  }
}

std::string_view compute_type(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return "double";
    case DType::int64:
      return "long";
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
      return "float";
    default:
      return "int";
  }
}

const FunctorName* find_functor(const OpBase& op) {
  for (int i = 0; i < functor_name_count; ++i)
    if (op.name == functor_names[i].op) return &functor_names[i];
  return nullptr;
}

void add_headers(const OpBase& op, DType compute_dtype, std::set<std::string_view>& headers) {
  const FunctorName& functor = *find_functor(op);
  headers.insert(functor.header);
  if (std::string_view(functor.type).starts_with("functors::Backward"))
    headers.insert("tensora/ops/pointwise/backward.h");
  if (is_half(compute_dtype)) headers.insert("tensora/ops/pointwise/cuda_formulas.cuh");
}

PrintedReduction print_reduction(const OpBase& op, DType from, DType to) {
  const bool whole_numbers = !is_floating_point(to) || !is_floating_point(from);
  // The functors of whole numbers are written for 64 bits.
  const std::string_view compute = is_floating_point(to) ? compute_type(to)
                                   : whole_numbers && !is_floating_point(from)
                                       ? std::string_view("long")
                                       : compute_type(from);
  std::string functor = concat("reductions::", find_row_op(op)->functor);
  functor.replace(functor.find("<C"), 2, concat("<", compute));
  const bool mean = functor.starts_with("reductions::Mean");
  return {std::move(functor), compute, mean};
}

std::string TileLayout::key() const {
  return concat(access, " ", pack, " ", packs, " ", threads, " ", group, " ", arrays,
                once ? " once" : "", full ? " full " : " ", defaults);
}

PrintableProgram printable(const TileProgram& program) {
  std::vector<int> origins;
  CanonicalProgram ordered = canonical(expanded(program, &origins));
  PrintableProgram result{std::move(ordered.program), std::move(ordered.inputs), {}};
  for (int step : ordered.steps) result.steps.push_back(origins[static_cast<size_t>(step)]);
  return result;
}

std::string why_not_printable(const TileProgram& program) {
  for (const Step& step : program.steps) {
    if (step.kind == Step::Kind::random || step.kind == Step::Kind::columns)
      return concat(step.op->name, " has no code within a kernel");
    if (step.kind == Step::Kind::pointwise && !find_functor(*step.op))
      return concat(step.op->name, " has no embedded source");
    if (step.kind == Step::Kind::reduce || step.kind == Step::Kind::row) {
      const RowOp* const row_op = find_row_op(*step.op);
      if (!row_op || (!row_op->functor && !row_op->expand))
        return concat(step.op->name, " has no code for rows");
    }
  }
  return {};
}

std::string cuda_text(const TileProgram& program, const TileLayout& layout) {
  return Printer(program, layout).text();
}

int number_count(const TileProgram& program) {
  int count = 0;
  for (const TileProgram::Input& input : program.inputs) count += input.host;
  for (const Step& step : program.steps) count += step.kind == Step::Kind::number;
  return count;
}

}  // namespace tensora::jit
