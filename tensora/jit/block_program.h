#pragma once

// Kernels of a user as a list of steps on tiles: what kernel.h records, and what the CPU's executor
// and the CUDA printer read.

#include "tensora/jit/graph.h"

namespace tensora::jit {

// Note [Block programs]
// A program runs once per point of a grid of up to three dims. It computes with integers (sizes,
// program numbers, loop counters: BlockInteger) and with tiles of up to two dims.
//   extent   what a tile has room for; part of the program. A dim of extent 1 broadcasts.
//   bounds   how many of its rows and columns exist, which is known when the program runs: a load
//            at the edge of an array has fewer. What lies outside is never read by a reduction or a
//            dot and never stored. The bounds of a pointwise result are the smaller ones of its
//            operands; `set` leaves elements outside the bounds of the new value as they were.
// Sizes, strides, constants and numbers come with the launch; ops, dtypes and extents are part of
// the program.

/// An integer of a program; `a` and `b` are numbers of other integers where nothing else is said.
struct BlockInteger {
  enum class Kind : uint8_t {
    constant,  // `value`, which comes with the launch
    size,      // of dim b of array a
    program,   // the number of the program along grid dim a
    loop,      // the counter of the loop that begins at step a
    add,
    subtract,
    multiply,
    divide,  // rounds down
    remainder,
    smaller,
    larger,
  };
  Kind kind = Kind::constant;
  int a = -1, b = -1;
  int64_t value = 0;
  uint32_t grid_dims = 0;  // a bit for each grid dim that it depends on
  int scope = 0;           // the innermost loop that it depends on; 0: none
};

/// Part of one dim of an array.
struct BlockRange {
  int start = -1;       // an integer
  int64_t extent = 1;   // how many elements
  int limit = -1;       // an integer: elements from there on do not exist; -1: the dim's size
  bool single = false;  // one element, and the tile has no such dim
  bool whole = false;   // all of the dim
};

/// Part of an array, with one range per dim.
struct BlockPlace {
  int array = -1;
  std::vector<BlockRange> ranges = {};
};

struct BlockValue {
  DType dtype = DType::float32;
  int64_t rows = 1, columns = 1;  // extents
  int rank = 0;
  int scope = 0;         // the loop in which it is made; 0: none
  bool changes = false;  // a `set` changes it

  int64_t extent(int axis) const { return axis == 0 ? rows : columns; }
};

struct BlockStep {
  enum class Kind : uint8_t {
    load,        // `place`
    store,       // operand 0 to `place`
    atomic_add,  // the same, added to what is there
    pointwise,   // a pointwise op of the library
    cast,        // operand 0 as the value's dtype
    reduce,      // operand 0 along `axis`, which stays with extent 1
    dot,         // the matrix product of operands 0 and 1
    transpose,   // operand 0 with its dims exchanged
    fill,        // `number` everywhere; with a place, in its bounds
    integer,     // `integer` as int64
    position,    // along `axis` in operand 0's tile: 0, 1, …; int64
    uniform,     // random numbers for the elements of `place`
    normal,
    set,   // operand 0 becomes operand 1
    loop,  // from integer `begin` to `end` by `step`; up to the matching `end`
    end,   // of the loop that begins at step `partner`
  };
  Kind kind = Kind::load;
  int value = -1;
  std::vector<int> operands = {};
  const OpBase* op = nullptr;  // pointwise and reduce
  AttrsCopy attrs = {};
  DType compute_dtype = DType::float32;  // pointwise: in which the operands meet
  BlockPlace place = {};
  int axis = 1;
  Scalar number = 0;
  int integer = -1;
  uint64_t seed = 0, offset = 0;  // of random numbers; they come with the launch
  int begin = -1, end = -1, by = -1;
  int partner = -1;  // the other end of a loop
};

struct BlockProgram {
  std::string name;
  std::vector<BlockInteger> integers = {};
  std::vector<BlockValue> values = {};
  std::vector<BlockStep> steps = {};
  std::vector<int> grid = {};  // an integer per grid dim: how many programs
  std::vector<DType> arrays = {};
  std::vector<int> ranks = {};    // of the arrays
  std::vector<int> written = {};  // arrays that it stores to

  const BlockValue& value(int i) const { return values[static_cast<size_t>(i)]; }
  const BlockInteger& integer(int i) const { return integers[static_cast<size_t>(i)]; }
};

/// Everything that decides which kernel a program becomes, one line per step; also for reading.
std::string to_string(const BlockProgram& program);

/// The value of an integer; `programs` and `loops` (by step) may be empty where it depends on none.
int64_t evaluate(const BlockProgram& program, int integer, std::span<const View> arrays,
                 std::span<const int64_t> programs, std::span<const int64_t> loops);

/// Runs a program on the CPU.
void run_on_host(const BlockProgram& program, std::span<const View> arrays);

/// A program needs more registers or shared memory than the device has.
struct KernelDoesNotFit : Error {
  using Error::Error;
};

/// A device's library names its own function when it is opened.
using BlockLauncher = void (*)(const BlockProgram& program, std::span<const View> arrays,
                               Device device);
void set_block_launcher(DeviceType device, BlockLauncher launcher);
/// Runs a program on the device of its arrays.
void launch(const BlockProgram& program, std::span<const View> arrays, Device device);

}  // namespace tensora::jit
