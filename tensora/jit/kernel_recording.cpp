#include "tensora/jit/kernel_recording.h"

#include <algorithm>

namespace tensora::jit {
namespace {

using Integer = BlockInteger;
using Step = BlockStep;

constexpr size_t kMaxGridDims = 3;

thread_local KernelRecording* current_recording = nullptr;

std::string extents_of(const BlockValue& value) {
  if (value.rank == 0) return "one value";
  if (value.rank == 1) return concat("a row of ", value.columns);
  return concat("a tile of ", value.rows, " x ", value.columns);
}

// Whether two arrays share memory, by the range of their addresses.
bool may_share(const View& a, const View& b) {
  if (a.numel == 0 || b.numel == 0) return false;
  const auto ends = [](const View& view) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < view.dim(); ++d)
      (view.strides[d] < 0 ? low : high) += view.strides[d] * (view.sizes[d] - 1);
    const auto size = static_cast<int64_t>(element_size(view.dtype));
    const auto at = static_cast<int64_t>(reinterpret_cast<intptr_t>(view.data));
    return std::make_pair(at + low * size, at + (high + 1) * size);
  };
  const auto first = ends(a), second = ends(b);
  return first.first < second.second && second.first < first.second;
}

}  // namespace

KernelRecording::KernelRecording(std::string_view name, std::span<const View> arrays,
                                 const TunableChoice& choice)
    : arrays_(arrays), choice_(choice), outer_(current_recording) {
  program_.name = name;
  for (size_t i = 0; i < arrays.size(); ++i) {
    handles_.emplace_back(this, static_cast<int>(i));
    program_.arrays.push_back(arrays[i].dtype);
    program_.ranks.push_back(arrays[i].dim());
    if (!contains(kRealDTypes, arrays[i].dtype))
      refuse("argument ", i, " cannot be ", arrays[i].dtype);
  }
  current_recording = this;
}

KernelRecording::~KernelRecording() { current_recording = outer_; }

KernelRecording& KernelRecording::current(std::string_view function) {
  check(current_recording != nullptr, "jit: ", function, " is for the body of a kernel");
  return *current_recording;
}

// ---- integers and places ------------------------------------------------------------------------

int KernelRecording::add_integer(Integer integer) {
  if (integer.kind >= Integer::Kind::add)
    for (int part : {integer.a, integer.b}) {
      integer.grid_dims |= program_.integer(part).grid_dims;
      integer.scope = std::max(integer.scope, program_.integer(part).scope);
    }
  program_.integers.push_back(integer);
  return static_cast<int>(program_.integers.size()) - 1;
}

int KernelRecording::integer(const Index& index) {
  if (!index.recording())
    return add_integer({.kind = Integer::Kind::constant, .value = index.value()});
  if (index.recording() != this) refuse("an index of another kernel");
  if (!is_open(program_.integer(index.number()).scope))
    refuse("the counter of a loop is used after the loop");
  return index.number();
}

bool KernelRecording::is_open(int scope) const {
  return std::find(scopes_.begin(), scopes_.end(), scope) != scopes_.end();
}

Place KernelRecording::place(int array, std::span<const Array::Span> spans) {
  const View& view = this->array(array);
  if (static_cast<int>(spans.size()) != view.dim())
    refuse("argument ", array, " is used with ", spans.size(), " dims, got shape ", view.sizes);
  BlockPlace result{.array = array};
  int ranges = 0;
  for (int d = 0; d < view.dim(); ++d) {
    const Array::Span& span = spans[static_cast<size_t>(d)];
    BlockRange range;
    if (span.whole_) {
      range = {.start = integer(0), .extent = view.sizes[d], .whole = true};
    } else if (span.range_) {
      if (span.range_->extent < 1)
        refuse("argument ", array, ", dim ", d, ": a range of ", span.range_->extent, " elements");
      range = {.start = integer(span.range_->start), .extent = span.range_->extent};
      if (span.range_->limit) range.limit = integer(*span.range_->limit);
    } else {
      range = {.start = integer(*span.index_), .extent = 1, .single = true};
      const Integer& start = program_.integer(range.start);
      if (start.kind == Integer::Kind::program) {
        const int64_t count =
            evaluate(program_, program_.grid[static_cast<size_t>(start.a)], arrays_, {}, {});
        if (count > view.sizes[d])
          refuse("argument ", array, " must have ", count, d == 0 ? " rows" : " elements",
                 " in dim ", d, ", one per program, got shape ", view.sizes);
      }
    }
    ranges += !range.single;
    result.ranges.push_back(range);
  }
  if (ranges > 2)
    refuse("argument ", array, " is used with ", ranges,
           " ranges; a tile has up to two dims, and the others need an index");
  return {this, std::move(result)};
}

BlockValue KernelRecording::shape_of(const BlockPlace& place) const {
  BlockValue shape;
  for (const BlockRange& range : place.ranges) {
    if (range.single) continue;
    shape.rows = shape.columns;
    shape.columns = range.extent;
    ++shape.rank;
  }
  return shape;
}

// ---- steps --------------------------------------------------------------------------------------

void KernelRecording::require_begun() const {
  if (program_.grid.empty()) refuse("program() comes first");
}

Index KernelRecording::begin_program(const Index& count) {
  if (!program_.steps.empty()) refuse("program() comes before the first load");
  if (program_.grid.size() == kMaxGridDims)
    refuse("program() is called up to ", kMaxGridDims, " times");
  const int counted = integer(count);
  if (program_.integer(counted).grid_dims != 0)
    refuse("the number of programs cannot depend on a program's number");
  if (const int64_t programs = evaluate(program_, counted, arrays_, {}, {}); programs < 0)
    refuse("the number of programs cannot be ", programs);
  program_.grid.push_back(counted);
  const int dim = static_cast<int>(program_.grid.size()) - 1;
  return {this, add_integer({.kind = Integer::Kind::program, .a = dim, .grid_dims = 1u << dim})};
}

void KernelRecording::require(const Tile& tile) const {
  if (tile.recording() != this) refuse("a tile of another kernel");
  if (!is_open(value(tile.value()).scope))
    refuse(
        "a tile that is made in a loop is used after it; make it before the loop and change it "
        "there by set or +=");
}

Tile KernelRecording::add(Step step, BlockValue value) {
  require_begun();
  value.scope = scopes_.back();
  step.value = static_cast<int>(program_.values.size());
  program_.values.push_back(value);
  program_.steps.push_back(std::move(step));
  return {this, static_cast<int>(program_.values.size()) - 1};
}

void KernelRecording::add(Step step) {
  require_begun();
  program_.steps.push_back(std::move(step));
}

Tile KernelRecording::load(const Place& place) {
  const int array = place.place.array;
  if (stored_.contains(array)) refuse("argument ", array, " is read after it was stored to");
  loaded_.insert(array);
  accesses_.emplace_back(program_.steps.size(), array);
  BlockValue value = shape_of(place.place);
  value.dtype = this->array(array).dtype;
  return add(Step{.kind = Step::Kind::load, .place = place.place}, value);
}

// Programs that write the same place overwrite one another's results.
void KernelRecording::check_races(const BlockPlace& place) const {
  uint32_t used = 0;
  for (const BlockRange& range : place.ranges) used |= program_.integer(range.start).grid_dims;
  for (size_t dim = 0; dim < program_.grid.size(); ++dim)
    if (!(used >> dim & 1) && evaluate(program_, program_.grid[dim], arrays_, {}, {}) > 1)
      refuse("all programs of grid dim ", dim, " store to the same place of argument ", place.array,
             "; use atomic_add, or an index that differs");
}

void KernelRecording::store(const Place& place, const Tile& given, Step::Kind kind) {
  require_begun();
  require(given);
  const int array = place.place.array;
  if (kind == Step::Kind::store) check_races(place.place);
  const BlockValue wanted = shape_of(place.place);
  Tile stored = given.as(this->array(array).dtype);
  // A column fits where a row does, if that is all there is.
  if (wanted.rank == 1 && value(stored.value()).rank == 2 && value(stored.value()).columns == 1)
    stored = transposed(stored);
  const BlockValue& has = value(stored.value());
  if (has.rows != wanted.rows || has.columns != wanted.columns)
    refuse(extents_of(has), " cannot be stored in argument ", array, " as ", extents_of(wanted),
           wanted.rank == 0 ? "; reduce it first"
           : has.rank == 0  ? "; combine it with a tile first"
                            : "");
  stored_.insert(array);
  accesses_.emplace_back(program_.steps.size(), ~array);
  add(Step{.kind = kind, .operands = {stored.value()}, .place = place.place});
}

void KernelRecording::set(const Tile& target, const Tile& given) {
  require(target);
  require(given);
  const Tile changed = given.as(value(target.value()).dtype);
  const BlockValue &to = value(target.value()), &from = value(changed.value());
  if ((from.rows != to.rows && from.rows != 1) || (from.columns != to.columns && from.columns != 1))
    refuse(extents_of(from), " cannot be the new value of ", extents_of(to));
  program_.values[static_cast<size_t>(target.value())].changes = true;
  add(Step{.kind = Step::Kind::set, .operands = {target.value(), changed.value()}});
}

Index KernelRecording::begin_loop(const Index& begin, const Index& end, const Index& step) {
  require_begun();
  const auto first = static_cast<int>(program_.steps.size());
  const Step opening{
      .kind = Step::Kind::loop, .begin = integer(begin), .end = integer(end), .by = integer(step)};
  add(opening);
  scopes_.push_back(first + 1);
  return {this, add_integer({.kind = Integer::Kind::loop, .a = first, .scope = scopes_.back()})};
}

void KernelRecording::end_loop() {
  if (scopes_.size() == 1) refuse("there is no loop to end");
  const auto first = static_cast<size_t>(scopes_.back()) - 1;
  scopes_.pop_back();
  program_.steps[first].partner = static_cast<int>(program_.steps.size());
  add(Step{.kind = Step::Kind::end, .partner = static_cast<int>(first)});
  std::set<int> loaded, stored;
  for (const auto& [at, array] : accesses_)
    if (at >= first) (array >= 0 ? loaded : stored).insert(array >= 0 ? array : ~array);
  for (int array : stored)
    if (loaded.contains(array))
      refuse("argument ", array, " is read and stored to in one loop; use another array");
}

int64_t KernelRecording::tunable(std::string_view name, std::span<const int64_t> candidates) {
  if (candidates.empty()) refuse("tunable ", name, " has no candidates");
  for (const Tunable& known : tunables_)
    if (known.name == name) refuse("tunable ", name, " is named twice");
  tunables_.push_back({std::string(name), {candidates.begin(), candidates.end()}});
  const auto chosen = choice_.find(name);
  return chosen == choice_.end() ? candidates[0] : chosen->second;
}

// ---- the end ------------------------------------------------------------------------------------

void KernelRecording::check_overlaps() const {
  for (int array : stored_) {
    const View& written = this->array(array);
    if (may_overlap_itself(written.sizes, written.strides))
      refuse("argument ", array, " is stored to, and several of its elements share memory");
    for (size_t other = 0; other < arrays_.size(); ++other) {
      const auto number = static_cast<int>(other);
      if (number == array || !may_share(written, arrays_[other])) continue;
      if (!loaded_.contains(number) && !stored_.contains(number)) continue;
      // Every program reads its part before it writes the same part.
      const bool same =
          written.data == arrays_[other].data && written.dtype == arrays_[other].dtype &&
          written.sizes == arrays_[other].sizes && written.strides == arrays_[other].strides;
      if (same && !stored_.contains(number) && program_.grid.size() == 1) {
        const auto own_part = [&](const Step& step) {
          if (step.place.array != array && step.place.array != number) return true;
          const BlockRange& first = step.place.ranges[0];
          return first.single && program_.integer(first.start).kind == Integer::Kind::program;
        };
        if (std::all_of(program_.steps.begin(), program_.steps.end(), own_part)) continue;
      }
      refuse("argument ", array, " is stored to and shares memory with argument ", number,
             "; give it memory of its own");
    }
  }
}

BlockProgram KernelRecording::finish() {
  if (scopes_.size() > 1) refuse("a loop was left before its end");
  if (stored_.empty()) refuse("nothing is stored");
  check_overlaps();
  program_.written.assign(stored_.begin(), stored_.end());
  return std::move(program_);
}

}  // namespace tensora::jit
