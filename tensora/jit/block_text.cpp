#include "tensora/jit/block_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "tensora/jit/block_words.h"
#include "tensora/jit/row_ops.h"
#include "tensora/jit/tile_text.h"

namespace tensora::jit {
namespace {

using Integer = BlockInteger;
using Step = BlockStep;

constexpr int64_t kLargestTile = 65536;  // elements; more would not stay in registers
constexpr size_t kMoveBytes = 16384;     // as in loops/block.cuh
constexpr size_t kSharedBytes = 48 * 1024;
constexpr size_t kParameterBytes = 4096;
constexpr size_t kFunctorAlignment = 16;

/// Writes the text of one program.
class BlockPrinter {
 public:
  explicit BlockPrinter(const BlockProgram& program)
      : program_(program),
        words_(program),
        uses_(program.values.size()),
        maker_(program.values.size(), -1) {
    int64_t largest = 1;
    for (const BlockValue& value : program.values)
      largest = std::max(largest, padded(value.rows) * padded(value.columns));
    if (largest > kLargestTile)
      throw KernelDoesNotFit(concat("kernel ", program.name, ": a tile of ", largest,
                                    " elements is too large for a GPU's registers; loop over "
                                    "blocks of at most ",
                                    kLargestTile));
    result_.threads = largest > 32768 ? 1024 : largest > 16384 ? 512 : largest > 4096 ? 256 : 128;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      for (int operand : program.steps[i].operands) ++uses_[static_cast<size_t>(operand)];
      if (program.steps[i].value >= 0)
        maker_[static_cast<size_t>(program.steps[i].value)] = static_cast<int>(i);
    }
    find_sums();
  }

  BlockText run() {
    includes();
    parameters();
    std::string body;
    std::swap(out_, body);
    programs();
    for (size_t i = 0; i < program_.steps.size(); ++i) step(i);
    std::swap(out_, body);
    shared_ = std::max({shared_, kMoveBytes, static_cast<size_t>(result_.threads) * 32});
    if (shared_ > kSharedBytes)
      throw KernelDoesNotFit(concat("kernel ", program_.name, ": its tiles need ", shared_,
                                    " bytes of shared memory; there are ", kSharedBytes));
    add("constexpr int T = ", result_.threads, ";\n\nextern \"C\" __global__ void ",
        "__launch_bounds__(T)\ntile(const __grid_constant__ Params p) {\n",
        "  __shared__ alignas(16) unsigned char shared[", shared_, "];\n", body, "}\n");
    result_.text = std::move(out_);
    result_.words = words_.count;
    result_.shared_bytes = shared_;
    return std::move(result_);
  }

 private:
  template <class... Parts>
  void add(const Parts&... parts) {
    out_ += concat(parts...);
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("kernel ", program_.name, ": ", parts...);
  }
  const BlockValue& value(int i) const { return program_.value(i); }
  std::string_view type(int i) const { return element_type(value(i).dtype); }
  // "R, C, T", the extents of a value.
  std::string extents(int i) const {
    return concat(padded(value(i).rows), ", ", padded(value(i).columns), ", T");
  }
  static std::string word(size_t i) { return concat("static_cast<long>(p.w[", i, "])"); }
  void indent() { out_.append(2 * depth_, ' '); }

  // ---- sums of products ------------------------------------------------------------------------

  const Step* maker(int of) const {
    const int step = maker_[static_cast<size_t>(of)];
    return step < 0 ? nullptr : &program_.steps[static_cast<size_t>(step)];
  }
  // The product that a `set` adds to its tile, if that is all it does; otherwise null.
  const Step* added_product(const Step& set) const {
    const Step* const sum = maker(set.operands[1]);
    if (sum->kind != Step::Kind::pointwise || sum->op->name != "add" ||
        sum->operands[0] != set.operands[0] || uses_[static_cast<size_t>(sum->value)] != 1)
      return nullptr;
    const Step* const dot = maker(sum->operands[1]);
    const bool plain = dot->kind == Step::Kind::dot &&
                       uses_[static_cast<size_t>(dot->value)] == 1 &&
                       value(dot->value).dtype == value(set.operands[0]).dtype &&
                       value(dot->value).rows == value(set.operands[0]).rows &&
                       value(dot->value).columns == value(set.operands[0]).columns;
    return plain ? dot : nullptr;
  }
  // Tiles that only ever have products added to them are kept as the products are made.
  void find_sums() {
    std::set<int> others;
    for (const Step& step : program_.steps) {
      if (step.kind != Step::Kind::set) continue;
      const int target = step.operands[0];
      const Step* const dot = added_product(step);
      const Step* const first = maker(target);
      if (!dot || first->kind != Step::Kind::fill ||
          (sums_.contains(target) && layout_of(*sums_[target]) != layout_of(*dot)))
        others.insert(target);
      else
        sums_[target] = dot;
    }
    for (int target : others) sums_.erase(target);
    for (const Step& step : program_.steps)
      if (step.kind == Step::Kind::set && sums_.contains(step.operands[0])) {
        skipped_.insert(step.operands[1]);
        skipped_.insert(maker(step.operands[1])->operands[1]);
      }
  }
  // "M, N, K, T"
  std::string product_extents(const Step& dot) const {
    return concat(padded(value(dot.value).rows), ", ", padded(value(dot.value).columns), ", ",
                  padded(value(dot.operands[0]).columns), ", T");
  }
  std::string layout_of(const Step& dot) const {
    return concat("ProductLayout<", type(dot.operands[0]), ", ", product_extents(dot), ">");
  }

  // ---- the parts of the text -------------------------------------------------------------------

  void includes() {
    std::set<std::string_view> headers = {"tensora/backend/cuda/loops/block.cuh"};
    for (const Step& step : program_.steps) {
      if (step.kind == Step::Kind::pointwise) {
        if (!find_functor(*step.op)) refuse(step.op->name, " has no code for CUDA");
        add_headers(*step.op, step.compute_dtype, headers);
      }
      if (step.kind == Step::Kind::reduce) {
        if (!find_row_op(*step.op)->functor) refuse(step.op->name, " has no code for CUDA");
        headers.insert("tensora/ops/reduce/sum_functors.h");
        headers.insert("tensora/ops/reduce/extremum_functors.h");
      }
      if (step.kind == Step::Kind::uniform || step.kind == Step::Kind::normal)
        headers.insert("tensora/ops/random/random_values.h");
    }
    for (std::string_view header : headers) add("#include \"", header, "\"\n");
    add("\nusing namespace tensora;\nusing namespace tensora::cuda;\n\n");
  }

  void parameters() {
    size_t at = (words_.count * 8 + kFunctorAlignment - 1) / kFunctorAlignment * kFunctorAlignment;
    add("struct Params {\n  unsigned long long w[", words_.count, "];\n");
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      result_.functor_at.push_back(at);
      if (step.kind != Step::Kind::pointwise) continue;
      add("  alignas(16) ", find_functor(*step.op)->type, " f", i, ";\n");
      at += (step.op->attrs_size + kFunctorAlignment - 1) / kFunctorAlignment * kFunctorAlignment;
    }
    add("  alignas(16) char end;\n};\n\n");
    result_.bytes = at + kFunctorAlignment;
    if (result_.bytes > kParameterBytes)
      refuse("it has ", result_.bytes, " bytes of parameters; a kernel takes ", kParameterBytes);
  }

  // Blocks are numbered in the order of the grid's dims, the last one fastest.
  void programs() {
    std::string rest = "static_cast<long>(blockIdx.x)";
    for (size_t dim = program_.grid.size(); dim-- > 0;) {
      add("  const long g", dim, " = ",
          dim == 0 ? rest : concat(rest, " % ", word(words_.grid + dim)), ";\n");
      rest = concat("(", rest, " / ", word(words_.grid + dim), ")");
    }
  }

  std::string integer(int i) const {
    const Integer& node = program_.integer(i);
    const auto both = [&](std::string_view between) {
      return concat("(", integer(node.a), between, integer(node.b), ")");
    };
    const auto call = [&](std::string_view function) {
      return concat(function, "(", integer(node.a), ", ", integer(node.b), ")");
    };
    switch (node.kind) {
      case Integer::Kind::constant:
        return word(words_.constants[static_cast<size_t>(i)]);
      case Integer::Kind::size:
        return word(words_.sizes[static_cast<size_t>(node.a)] + static_cast<size_t>(node.b));
      case Integer::Kind::program:
        return concat("g", node.a);
      case Integer::Kind::loop:
        return concat("k", node.a);
      case Integer::Kind::add:
        return both(" + ");
      case Integer::Kind::subtract:
        return both(" - ");
      case Integer::Kind::multiply:
        return both(" * ");
      case Integer::Kind::divide:
        return call("floor_quotient");
      case Integer::Kind::remainder:
        return call("floor_remainder");
      case Integer::Kind::smaller:
        return call("smaller_long");
      default:
        return call("larger_long");
    }
  }

  /// A BlockPart called `name`, with all that exists of a place.
  void part(const BlockPlace& place, std::string_view name) {
    const auto array = static_cast<size_t>(place.array);
    std::string data = concat("reinterpret_cast<char*>(p.w[", array, "])");
    std::string inside, bounds[2] = {"1", "1"}, strides[2] = {"0", "0"};
    for (size_t d = 0; d < place.ranges.size(); ++d) {
      const BlockRange& range = place.ranges[d];
      const std::string size = word(words_.sizes[array] + d);
      const std::string stride = word(words_.strides[array] + d);
      const std::string start = integer(range.start);
      if (!range.whole) data += concat(" + ", start, " * ", stride);
      if (range.single) {
        inside += concat(inside.empty() ? "" : " && ", start, " >= 0 && ", start, " < ", size);
        continue;
      }
      bounds[0] = std::exchange(
          bounds[1],
          concat("bound_of(", range.whole ? "0" : start, ", ",
                 range.limit < 0 ? size
                                 : concat("smaller_long(", size, ", ", integer(range.limit), ")"),
                 ", ", range.whole ? padded(range.extent) : range.extent, ")"));
      strides[0] = std::exchange(strides[1], stride);
    }
    if (!inside.empty()) bounds[0] = concat(inside, " ? ", bounds[0], " : 0");
    indent();
    add("const BlockPart ", name, " = {", data, ", ", strides[0], ", ", strides[1], ", ", bounds[0],
        ", ", bounds[1], "};\n");
  }

  void step(size_t i) {
    const Step& step = program_.steps[i];
    if (step.kind == Step::Kind::end) {
      --depth_;
      indent();
      add("}\n");
      return;
    }
    if (step.value >= 0 && skipped_.contains(step.value)) return;
    if (step.place.array >= 0) part(step.place, concat("part", i));
    indent();
    switch (step.kind) {
      case Step::Kind::loop:
        add("for (long k", i, " = ", integer(step.begin), ", by", i, " = ", integer(step.by),
            "; by", i, " > 0 && k", i, " < ", integer(step.end), "; k", i, " += by", i, ") {\n");
        ++depth_;
        return;
      case Step::Kind::store:
        add("store_part(part", i, ", v", step.operands[0], ");\n");
        return;
      case Step::Kind::atomic_add:
        if (const DType dtype = value(step.operands[0]).dtype;
            element_size(dtype) == 1 || dtype == kInt16)
          refuse("atomic_add has no code for ", dtype, " on CUDA");
        add("add_part(part", i, ", v", step.operands[0], ");\n");
        return;
      case Step::Kind::set:
        if (const auto sum = sums_.find(step.operands[0]); sum != sums_.end()) {
          const Step& dot = *maker(maker(step.operands[1])->operands[1]);
          need_factors(dot);
          add("product_add<", product_extents(dot), ">(v", step.operands[0], ", v", dot.operands[0],
              ", v", dot.operands[1], ", shared);\n");
          return;
        }
        add("assign(v", step.operands[0], ", v", step.operands[1], ", shared);\n");
        return;
      default:
        add(value(step.value).changes ? "auto v" : "const auto v", step.value, " = ", made(i, step),
            ";\n");
    }
  }

  /// The expression of a step that makes a value.
  std::string made(size_t i, const Step& step) {
    const int v = step.value;
    const std::string canonical = concat("Canonical<", extents(v), ">");
    const auto bounds_of_part = concat("part", i, ".rows, part", i, ".columns");
    switch (step.kind) {
      case Step::Kind::load:
        return concat("load_part<", type(v), ", ", canonical, ">(part", i, ")");
      case Step::Kind::pointwise:
        return pointwise(i, step);
      case Step::Kind::cast:
        return concat("converted<", type(v), ">(v", step.operands[0], ")");
      case Step::Kind::reduce:
        return reduction(step);
      case Step::Kind::dot:
        need_factors(step);
        return concat("product<", type(v), ", ", product_extents(step), ">(v", step.operands[0],
                      ", v", step.operands[1], ", shared)");
      case Step::Kind::transpose:
        need_move(step.operands[0]);
        return concat("moved<", canonical, ", true>(v", step.operands[0], ", shared)");
      case Step::Kind::fill: {
        const auto sum = sums_.find(v);
        return concat(
            "filled<", type(v), ", ", sum == sums_.end() ? canonical : layout_of(*sum->second),
            ">(number<", type(v), ">(p.w[", words_.numbers[i], "]), ",
            step.place.array >= 0 ? bounds_of_part : concat(value(v).rows, ", ", value(v).columns),
            ")");
      }
      case Step::Kind::integer:
        return concat("filled<long, Single>(", integer(step.integer), ", 1, 1)");
      case Step::Kind::position:
        return concat("positions<", canonical, ", ", step.axis, ">(v", step.operands[0], ".rows, v",
                      step.operands[0], ".columns)");
      default:
        return random(i, step);
    }
  }

  std::string pointwise(size_t i, const Step& step) {
    std::string operands, names;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      names += concat(k == 0 ? "auto x" : ", auto x", k);
      need_move(step.operands[k]);
    }
    std::string passed;
    for (size_t k = 0; k < step.operands.size(); ++k) passed += concat(k == 0 ? "x" : ", x", k);
    for (int operand : step.operands) operands += concat(", v", operand);
    return concat("map<", type(step.value), ", ", compute_type(step.compute_dtype), ", ",
                  extents(step.value), ">([&](", names, ") { return ",
                  is_half(step.compute_dtype) ? concat("half_value(p.f", i, ", ", passed, ")")
                                              : concat("p.f", i, ".forward(", passed, ")"),
                  "; }, shared", operands, ")");
  }

  std::string reduction(const Step& step) {
    const int from = step.operands[0];
    need_move(from);
    const auto [functor, compute, mean] =
        print_reduction(*step.op, value(from).dtype, value(step.value).dtype);
    return concat("reduced_tile<", type(step.value), ", ", compute, ", ", step.axis, ", ",
                  mean ? "true" : "false", ", ", extents(from), ">(", functor, "{}, v", from,
                  ", shared)");
  }

  std::string random(size_t i, const Step& step) {
    const auto array = static_cast<size_t>(step.place.array);
    // Elements are numbered as in a contiguous array.
    std::string first = "0", strides[2] = {"0", "0"}, stride = "1L";
    for (size_t d = step.place.ranges.size(); d-- > 0;) {
      const BlockRange& range = step.place.ranges[d];
      first += concat(" + ", integer(range.start), " * ", stride);
      if (!range.single) (strides[1] == "0" ? strides[1] : strides[0]) = stride;
      stride = concat(word(words_.sizes[array] + d), " * ", stride);
    }
    const std::string distribution =
        concat(step.kind == Step::Kind::uniform ? "Uniform" : "Normal", "{p.w[", words_.numbers[i],
               "], p.w[", words_.numbers[i] + 1, "]}");
    return concat("drawn<Canonical<", extents(step.value), ">>(", distribution, ", ", first, ", ",
                  strides[0], ", ", strides[1], ", part", i, ".rows, part", i, ".columns)");
  }

  // ---- shared memory ---------------------------------------------------------------------------

  void need_factors(const Step& dot) {
    const BlockValue &a = value(dot.operands[0]), &b = value(dot.operands[1]);
    const int64_t elements =
        padded(a.rows) * (padded(a.columns) + 8) + padded(b.rows) * (padded(b.columns) + 8);
    shared_ = std::max(shared_, static_cast<size_t>(elements) * element_size(a.dtype));
  }
  // A move has room for a row at least.
  void need_move(int of) {
    shared_ = std::max(shared_,
                       static_cast<size_t>(value(of).rows > 1 ? padded(value(of).columns) : 0) * 8);
  }

  const BlockProgram& program_;
  const BlockWords words_;
  std::vector<int> uses_, maker_;
  std::map<int, const Step*> sums_;  // by tile: a product that is added to it
  std::set<int> skipped_;            // values that are part of a product_add
  size_t depth_ = 1;
  size_t shared_ = 0;
  std::string out_;
  BlockText result_;
};

}  // namespace

BlockText print_block(const BlockProgram& program) { return BlockPrinter(program).run(); }

}  // namespace tensora::jit
