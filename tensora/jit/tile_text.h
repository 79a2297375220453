#pragma once

// Internal header: programs as CUDA text.

#include <set>

#include "tensora/jit/embedded.h"
#include "tensora/jit/tile_program.h"

namespace tensora::jit {

/// How a kernel accesses the arrays of a launch; the text depends on it. Arrays are the results,
/// then the inputs that are not numbers of the host.
struct TileLayout {
  /// v: groups of adjacent elements; r: one element for a whole group or row; s: elements that are
  /// apart; w: like v, and the same for every row, loaded once; m: the same, loaded for every row.
  std::string access;
  int pack = 1;               // adjacent elements per access
  int packs = 1;              // per thread
  int threads = 256;          // per block
  int group = 1;              // threads per row
  int arrays = 4;             // that the parameters have room for
  bool once = false;          // larger than the L2 cache
  bool full = false;          // the threads of a row have no element too many
  std::string defaults = {};  // per step: 'd' if its attributes are the op's defaults
  std::string key() const;
};

/// A program as it is printed: row ops expanded, in canonical order.
struct PrintableProgram {
  TileProgram program;
  std::vector<int> inputs;  // of the given program
  std::vector<int> steps;   // the same; -1: part of an expansion
};
PrintableProgram printable(const TileProgram& program);
/// Why a program cannot be printed; empty if it can.
std::string why_not_printable(const TileProgram& program);
/// The text of a printable program; the kernel is called `tile`.
std::string cuda_text(const TileProgram& program, const TileLayout& layout);
/// How many numbers come with a launch: host inputs first, then the `number` steps.
int number_count(const TileProgram& program);

// ---- the words of CUDA text, for all printers
// ----------------------------------------------------

/// The type of a dtype's elements, and the type in which its values are computed.
std::string_view element_type(DType dtype);
std::string_view compute_type(DType dtype);
/// Whether a 16-bit float is computed by its own formula.
inline bool is_half(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }
/// Null if the op's functor is not embedded.
const FunctorName* find_functor(const OpBase& op);
/// The headers that a pointwise op needs.
void add_headers(const OpBase& op, DType compute_dtype, std::set<std::string_view>& headers);

/// How a reduction is printed: its functor, and the type that it computes in.
struct PrintedReduction {
  std::string functor;
  std::string_view compute;
  bool mean;  // the result is divided by the number of elements
};
PrintedReduction print_reduction(const OpBase& op, DType from, DType to);

}  // namespace tensora::jit
