// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/shape/cat.h"

#include "tensora/backend/cpu/parts.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/base/small_vector.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Writes `from` to the places [start, start + its size) of one dim of `out`.
void place(const View& from, const View& out, int dim, int64_t start) {
  const View target = part_of(out, dim, start, 1, from.sizes[dim]);
  const bool plain = from.dtype == out.dtype && from.contiguous && out.contiguous;
  if (!plain || target.contiguous) return copy_elements(from, target);
  int64_t rows = 1;
  for (int d = 0; d < dim; ++d) rows *= out.sizes[d];
  const int64_t row_bytes = static_cast<int64_t>(from.bytes()) / rows;
  const int64_t out_step = static_cast<int64_t>(out.bytes()) / rows;
  copy_rows(from.as<char>(), row_bytes, target.as<char>(), out_step, rows, row_bytes);
}

// What one input gives to a row of the result: `bytes` in one piece, of rows `step` bytes apart.
struct Run {
  const char* data;
  int64_t step, bytes;
};

// The runs of `from`, if it has some: its dims before `dim` make rows, the others lie densely.
bool find_run(const View& from, const View& out, int dim, Run* run) {
  if (from.dtype != out.dtype || is_quantized(from.dtype)) return false;
  int64_t length = 1, step = 0, rows = 1;
  for (int d = from.dim() - 1; d >= 0; --d) {
    const int64_t size = from.sizes[d];
    if (size == 1) continue;
    if (d >= dim) {
      if (from.strides[d] != length) return false;
      length *= size;
    } else {
      if (rows == 1) step = from.strides[d];
      if (from.strides[d] != step * rows) return false;
      rows *= size;
    }
  }
  const auto element = static_cast<int64_t>(element_size(from.dtype));
  *run = {from.as<const char>(), step * element, length * element};
  return true;
}

void write_run(char* to, const char* from, int64_t bytes, bool past_cache) {
  constexpr auto unit = static_cast<int64_t>(kStreamUnit);
  if (past_cache && bytes >= 16 * unit) {
    const int64_t head = -static_cast<int64_t>(reinterpret_cast<uintptr_t>(to)) & (unit - 1);
    const int64_t whole = (bytes - head) / unit * unit;
    std::memcpy(to, from, static_cast<size_t>(head));
    copy_streaming(to + head, from + head, static_cast<size_t>(whole));
    to += head + whole, from += head + whole, bytes -= head + whole;
  }
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

using Runs = SmallVector<Run, 8>;

// Row by row, so that the result is written in its order.
void join(const Runs& runs, const View& out, int64_t rows) {
  char* const to = out.as<char>();
  const int64_t row_bytes = static_cast<int64_t>(out.bytes()) / rows;
  const bool past_cache = out.bytes() >= kStreamBytes;
  if (row_bytes > kBytesPerPart) {  // long rows are divided among threads
    for (int64_t row = 0; row < rows; ++row) {
      char* target = to + row * row_bytes;
      for (const Run& run : runs) {
        const char* const source = run.data + row * run.step;
        parallel_for(run.bytes, kBytesPerPart, [&](int64_t begin, int64_t end) {
          write_run(target + begin, source + begin, end - begin, past_cache);
          if (past_cache) finish_streaming();
        });
        target += run.bytes;
      }
    }
    return;
  }
  parallel_for(rows, items_per_task(row_bytes), [&](int64_t begin, int64_t end) {
    char* target = to + begin * row_bytes;
    for (int64_t row = begin; row < end; ++row)
      for (const Run& run : runs) {
        write_run(target, run.data + row * run.step, run.bytes, past_cache);
        target += run.bytes;
      }
    if (past_cache) finish_streaming();
  });
}

// Whether the result was joined of runs that are long enough to be worth a call each.
bool joined(const KernelContext& context, int dim) {
  const View& out = context.output();
  constexpr int64_t kLongRun = 256;
  if (!out.contiguous || out.numel == 0) return false;
  Runs runs;
  for (const View* from : context.in) {
    if (from->dim() != out.dim() || from->numel == 0) continue;
    Run run;
    if (!find_run(*from, out, dim, &run)) return false;
    runs.push_back(run);
  }
  int64_t rows = 1;
  for (int d = 0; d < dim; ++d) rows *= out.sizes[d];
  const auto count = static_cast<int64_t>(runs.size());
  if (static_cast<int64_t>(out.bytes()) / rows < count * kLongRun) return false;
  join(runs, out, rows);
  return true;
}

void cat_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (joined(context, dim)) return;
  int64_t start = 0;
  for (const View* from : context.in) {
    if (from->dim() != out.dim()) continue;  // the ignored empty ones
    if (from->numel != 0) place(*from, out, dim, start);
    start += from->sizes[dim];
  }
}

void stack_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (out.numel == 0) return;
  int64_t start = 0;
  for (const View* from : context.in) {
    View widened = *from;
    widened.sizes.insert(dim, 1);
    widened.strides.insert(dim, 1);
    place(widened, out, dim, start++);
  }
}

}  // namespace

void register_cat_cpu() {
  cat_op.set_kernel(DeviceType::cpu, cat_kernel);
  stack_op.set_kernel(DeviceType::cpu, stack_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
