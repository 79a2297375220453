#include "tensora/backend/cuda/loops/block_sort.cuh"
#include "tensora/ops/sort/select.cuh"
#include "tensora/ops/sort/sort.h"
#include "tensora/ops/sort/topk.h"

namespace tensora::cuda {
namespace {

// Note [The largest of long rows]
// A block selects from a part of a row, and sorts what it selected in shared memory. Rows that are
// long and few are cut into parts, and the items selected from the parts are selected from again.
// Where more are wanted than fit into shared memory, the rows are sorted.
// Where few are wanted, a bound is found first: every thread finds the first of its items, and the
// k items that are wanted are not beyond number k of these firsts. In most rows few others are
// before it, and all up to the bound are taken and sorted. Where they do not fit into shared
// memory, the first k are selected by digits.

constexpr unsigned kMostItems = 2048;

template <class Key>
struct TopkParams {
  ItemSource<Key> source;
  long long row_items;  // of a row in the source
  unsigned part, parts, k;
  KeyedItem<Key>* selected /* rows parts k */;  // where parts > 1
  const char* in /* rows length */;             // where parts == 1: the elements, and the results
  long long length;
  char* values;
  int64_t* indices;
};

/// What the threads of a block tell each other.
template <class Key>
struct TopMemory {
  KeyedItem<Key> items[kMostItems];
  Bin<Key> bin;
  unsigned taken;
};

/// The block's part of a row.
struct TopPart {
  unsigned row, begin, end, wanted;
  long long row_start;

  template <class Key>
  __device__ explicit TopPart(const TopkParams<Key>& params) {
    row = blockIdx.x / params.parts;
    const unsigned part = blockIdx.x - row * params.parts;
    row_start = row * params.row_items;
    begin = static_cast<unsigned>(static_cast<long long>(part) * params.part);
    end = static_cast<unsigned>(min(params.row_items, static_cast<long long>(begin) + params.part));
    wanted = min(params.k, end - begin);
  }
};

/// Prepares for a search among `count` items.
template <class Key>
__device__ inline void begin_search(TopMemory<Key>& memory, unsigned wanted, unsigned count) {
  if (threadIdx.x == 0) memory.bin = Bin<Key>::all(wanted, count);
  __syncthreads();
}

/// Takes the items that the bin reaches; those beyond kMostItems are only counted. Any order will
/// do.
template <class Key>
__device__ inline unsigned take_items(const ItemSource<Key>& source, const TopPart& part,
                                      TopMemory<Key>& memory) {
  if (threadIdx.x == 0) memory.taken = 0;
  __syncthreads();
  source.each(part.row_start, part.begin, part.end, [&, bin = memory.bin](Key key, unsigned index) {
    if (!bin.reaches(key, index)) return;
    const unsigned to = atomicAdd(&memory.taken, 1u);
    if (to < kMostItems) memory.items[to] = {key, index};
  });
  __syncthreads();
  return memory.taken;
}

/// Takes all up to a bound that at least `wanted` items do not exceed.
template <class Key>
__device__ inline unsigned take_to_bound(const ItemSource<Key>& source, const TopPart& part,
                                         TopMemory<Key>& memory) {
  constexpr unsigned kSlack = 16;  // how many more of the firsts the bound may let in
  KeyedItem<Key> first{static_cast<Key>(~Key(0)), ~0u};
  source.each(part.row_start, part.begin, part.end, [&](Key key, unsigned index) {
    const KeyedItem<Key> item{key, index};
    if (item < first) first = item;
  });
  memory.items[threadIdx.x] = first;
  begin_search(memory, part.wanted, kSelectThreads);
  const ItemSource<Key> firsts{nullptr,
                               memory.items,
                               source.dtype,
                               source.descending,
                               {source.bits.key, 32}};  // a thread without items has ~0u
  find_bin(firsts, 0, 0, kSelectThreads, memory.bin,
           [](const Bin<Key>& b) { return b.count - b.rank <= kSlack; });
  return take_items(source, part, memory);
}

template <class Key>
__global__ void __launch_bounds__(kSelectThreads, 3)
    select_top(const __grid_constant__ TopkParams<Key> params) {
  __shared__ TopMemory<Key> memory;
  const TopPart part(params);
  const unsigned wanted = part.wanted;
  // Several items to a thread, so that its first says something.
  const bool are_few = wanted <= kSelectThreads / 4 && part.end - part.begin >= 4 * kSelectThreads;
  unsigned taken = are_few ? take_to_bound(params.source, part, memory) : ~0u;
  if (taken > kMostItems) {
    begin_search(memory, wanted, part.end - part.begin);
    find_bin(params.source, part.row_start, part.begin, part.end, memory.bin,
             [](const Bin<Key>& b) { return b.rank == b.count; });
    taken = take_items(params.source, part, memory);
  }
  if (params.parts == 1 || taken > wanted)
    sort_block(memory.items, taken,
               [](const KeyedItem<Key>& a, const KeyedItem<Key>& b) { return a < b; });
  if (params.parts > 1) {  // in any order; what a short part lacks comes last, no two equal
    KeyedItem<Key>* const to = params.selected + static_cast<long long>(blockIdx.x) * params.k;
    for (unsigned i = threadIdx.x; i < params.k; i += kSelectThreads)
      to[i] = i < wanted ? memory.items[i] : KeyedItem<Key>{static_cast<Key>(~Key(0)), ~i};
    return;
  }
  for (unsigned i = threadIdx.x; i < wanted; i += kSelectThreads) {
    const KeyedItem<Key> item = memory.items[i];
    const long long to = static_cast<long long>(part.row) * params.k + i;
    store_element<Key>(params.in, part.row * params.length + item.index, params.values, to,
                       params.source.dtype, item.key, params.source.descending);
    params.indices[to] = item.index;
  }
}

/// How a row is cut, for `rows` of them.
unsigned part_length(int64_t rows, int64_t items, int64_t k, int device) {
  constexpr int64_t kLeast = 16 * 1024, kBlocksPerMultiprocessor = 4;
  const int64_t blocks = device_info(device).multiprocessors * kBlocksPerMultiprocessor;
  const int64_t parts = std::max<int64_t>(1, blocks / rows);
  // A part must be several times as long as what is kept of it, or cutting does not end.
  const int64_t least = std::max(kLeast, 8 * k), even = (items + parts - 1) / parts;
  return static_cast<unsigned>(std::min(items, std::max(least, even)));
}

template <class Key>
void select_rows(const KernelContext& context, TopkParams<Key> params, int64_t rows) {
  const int device = context.device.index;
  std::optional<Scratch> selected[2];  // read from one, written to the other
  for (int round = 0;; ++round) {
    params.part = part_length(rows, params.row_items, params.k, device);
    const int64_t parts = (params.row_items + params.part - 1) / params.part;
    params.parts = static_cast<unsigned>(parts);
    if (parts > 1) {
      std::optional<Scratch>& target = selected[round % 2];
      target.reset();
      target.emplace(device, static_cast<size_t>(rows * parts * params.k) * sizeof(KeyedItem<Key>));
      params.selected = reinterpret_cast<KeyedItem<Key>*>(target->data());
    }
    check(rows * parts < int64_t{1} << 31, context.op, ": ", rows,
          " rows are too many on cuda, at most 2^31 - 1 can be selected from");
    Launch{context.op, device}(select_top<Key>, dim3(static_cast<unsigned>(rows * parts)),
                               dim3(kSelectThreads), params);
    if (parts == 1) return;
    params.source.items = params.selected;
    params.source.bits.index = 32;  // what a short part lacked has positions near ~0u
    params.row_items = parts * params.k;
  }
}

// All of it sorted, and the beginning of each line copied.
void topk_by_sorting(const KernelContext& context, const TopkAttrs& attrs, int dim) {
  const View& in = context.input(0);
  View values = in, indices = in;
  const Scratch value_memory(in.device.index, in.bytes());
  const Scratch index_memory(in.device.index, static_cast<size_t>(in.numel) * sizeof(int64_t));
  values.data = value_memory.data();
  indices.data = index_memory.data();
  indices.dtype = kInt64;
  for (View* view : {&values, &indices}) {
    view->strides = contiguous_strides(in.sizes);
    view->update();
  }
  const View *const ins[] = {&in}, *const outs[] = {&values, &indices};
  sort_op.kernel(DeviceType::cuda)(
      KernelContext{context.op, ins, outs, context.device, context.compute_dtype},
      {dim, attrs.largest});
  for (View* view : {&values, &indices}) {
    view->sizes = context.output().sizes;
    view->update();
  }
  copy_elements(context.op, values, context.output(0));
  copy_elements(context.op, indices, context.output(1));
}

void topk_kernel(const KernelContext& context, const TopkAttrs& attrs) {
  const View& in = context.input(0);
  if (context.output().numel == 0) return;
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  const int64_t k = in.dim() == 0 ? 1 : attrs.k;
  if (k > kMostItems) return topk_by_sorting(context, attrs, dim);
  const ContiguousRows source(context.op, in, dim), values(context.op, context.output(0), dim),
      indices(context.op, context.output(1), dim);
  check(source.length < int64_t{1} << 31, context.op,
        ": more than 2^31 elements along a dimension are not supported on cuda");
  source.read();
  visit_key(in.dtype, [&]<class Key>() {
    TopkParams<Key> params{};
    params.source = {source.data(),
                     nullptr,
                     in.dtype,
                     attrs.largest,
                     {8 * static_cast<int>(element_size(in.dtype)), index_bits(source.length)}};
    params.row_items = params.length = source.length;
    params.k = static_cast<unsigned>(k);
    params.in = source.data();
    params.values = values.data();
    params.indices = reinterpret_cast<int64_t*>(indices.data());
    select_rows(context, params, source.rows);
  });
  values.write_back();
  indices.write_back();
}

}  // namespace

void register_topk_cuda() { topk_op.set_kernel(DeviceType::cuda, topk_kernel); }

}  // namespace tensora::cuda
