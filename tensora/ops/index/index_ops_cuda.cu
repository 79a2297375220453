#include "tensora/backend/cuda/copy.h"
#include "tensora/backend/cuda/indexing.cuh"
#include "tensora/backend/cuda/launch_walk.cuh"
#include "tensora/backend/cuda/ordered.h"
#include "tensora/backend/cuda/parts.h"
#include "tensora/backend/cuda/runtime.h"
#include "tensora/backend/cuda/scratch.h"
#include "tensora/base/small_vector.h"
#include "tensora/core/determinism.h"
#include "tensora/ops/index/index.h"

// Note [Indexed copies on the GPU]
// Indexing pairs a plain array (the result, or the values to write) with an indexed one:
//   plain[outer, place, inner]  <->  indexed[outer, offset of place, inner]
// A first kernel per index tensor adds up the offsets of all places. Then a thread moves, or adds,
// one element. Places may occur more than once: see Note [Order of colliding writes].

namespace tensora::cuda {
namespace {

constexpr long long kNowhere = -(1ll << 62);  // the place of a wrong index

struct PlaceParams {
  Walk<2> walk;  // places, index
  char *places, *index;
  long long step;  // bytes between neighbours of the indexed array along the dim
  IndexLimits limits;
  DType index_dtype;
  bool is_first;  // of the index tensors: nothing is there yet
  unsigned count;
};

__global__ void __launch_bounds__(kThreads) add_places(const __grid_constant__ PlaceParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[2];
  params.walk.offsets(i, at);
  long long& place = *reinterpret_cast<long long*>(params.places + at[0]);
  const long long position = checked_index(params.index, at[1], params.index_dtype, params.limits);
  const long long others = params.is_first ? 0 : place;
  place = position < 0 || others == kNowhere ? kNowhere : others + position * params.step;
}

struct MoveParams {
  Walk<3> walk;  // plain, indexed, places
  char *plain, *indexed, *places;
  unsigned count;
};

enum class Action { read, write, add };

template <class T, Action kAction>
__global__ void __launch_bounds__(kThreads)
    move_elements(const __grid_constant__ MoveParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  const long long place = *reinterpret_cast<const long long*>(params.places + at[2]);
  T* const plain = reinterpret_cast<T*>(params.plain + at[0]);
  if (place == kNowhere) {
    if constexpr (kAction == Action::read) *plain = T(0);
    return;
  }
  T* const indexed = reinterpret_cast<T*>(params.indexed + at[1] + place);
  if constexpr (kAction == Action::read)
    *plain = *indexed;
  else if constexpr (kAction == Action::write)
    *indexed = *plain;
  else
    atomic_add(indexed, *plain);
}

__global__ void __launch_bounds__(kThreads)
    pair_places(const long long* places, SortPairs pairs, uint64_t nowhere, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  pairs.keys[i] = places[i] == kNowhere ? nowhere : static_cast<uint64_t>(places[i]);
  pairs.values[i] = static_cast<uint32_t>(i);
}

dim3 blocks_for(unsigned count) { return dim3((count + kThreads - 1) / kThreads); }

/// The three arrays of an indexed copy as views of one shape.
struct Arrays {
  View plain, indexed, places;
  Shape common;      // of the places
  Strides in_plain;  // their strides in the plain array
  int first = 0;     // their first dim in the plain array
};

class IndexedCopy {
 public:
  IndexedCopy(const KernelContext& context, const View& plain, const View& indexed,
              const Dims& dims, Negative negative, std::span<const View* const> indices)
      : context_(context),
        arrays_(lay_out(plain, indexed, dims, indices)),
        indexed_extent_(static_cast<uint64_t>(extent_bytes(indexed))),
        scratch_(context.device.index, static_cast<size_t>(arrays_.common.numel()) * 8) {
    arrays_.places.data = scratch_.data();
    View flat = arrays_.places;
    flat.sizes = arrays_.common;
    flat.strides = contiguous_strides(arrays_.common);
    flat.update();
    for (int i = 0; i < dims.size(); ++i)
      add_index(flat, *indices[static_cast<size_t>(i)], indexed, static_cast<int>(dims[i]),
                negative, i == 0);
  }

  void read() const {
    visit_element_size(arrays_.plain.dtype, [&]<class T>() { move<T, Action::read>(); });
  }
  void write() const {
    if (is_deterministic()) return in_order(write_in_order);
    visit_element_size(arrays_.plain.dtype, [&]<class T>() { move<T, Action::write>(); });
  }
  void add() const {
    if (is_deterministic() && is_differentiable(arrays_.plain.dtype)) return in_order(add_in_order);
    visit_computing(arrays_.plain.dtype, [&]<class T>() { move<T, Action::add>(); });
  }

 private:
  Arrays lay_out(const View& plain, const View& indexed, const Dims& dims,
                 std::span<const View* const> indices) const {
    SmallVector<const Shape*, kMaxDims> index_sizes;
    for (const View* index : indices) index_sizes.push_back(&index->sizes);
    const IndexedShape shape =
        indexed_shape(indexed.sizes, dims, {index_sizes.data(), index_sizes.size()}, context_.op);
    Arrays arrays{plain, indexed, plain, {}, {}, shape.index_start};
    arrays.indexed.sizes = arrays.places.sizes = plain.sizes;
    arrays.indexed.strides = arrays.places.strides = Strides::filled(plain.dim(), 0);
    arrays.places.dtype = DType::int64;
    for (int d = 0; d < plain.dim(); ++d) {
      const int within = d - shape.index_start;
      if (within >= 0 && within < shape.index_dims) {
        arrays.common.push_back(plain.sizes[d]);
        arrays.in_plain.push_back(plain.strides[d]);
        continue;
      }
      const auto source = static_cast<int>(shape.kept[within < 0 ? d : d - shape.index_dims]);
      arrays.indexed.strides[d] = indexed.strides[source];
    }
    const Strides steps = contiguous_strides(arrays.common);
    for (int d = 0; d < steps.size(); ++d) arrays.places.strides[shape.index_start + d] = steps[d];
    arrays.indexed.update();
    arrays.places.update();
    return arrays;
  }

  void add_index(const View& flat, const View& index, const View& indexed, int dim,
                 Negative negative, bool is_first) const {
    if (flat.numel == 0) return;
    const View* const views[] = {&flat, &index};
    PlaceParams params{};
    params.step = indexed.strides[dim] * static_cast<int64_t>(element_size(indexed.dtype));
    const int64_t size = indexed.sizes[dim];
    params.limits = {context_.op.data(), device_fault(context_.device.index),
                     negative == Negative::wrapped ? -size : 0, size, dim};
    params.index_dtype = index.dtype;
    params.is_first = is_first;
    each_part(make_walk(views), [&](const HostWalk& part, bool) {
      fill_walk(params.walk, part);
      params.places = part.data[0];
      params.index = part.data[1];
      params.count = static_cast<unsigned>(part.count());
      Launch{context_.op, context_.device.index}(add_places, blocks_for(params.count),
                                                 dim3(kThreads), params);
    });
  }

  template <class T, Action kAction>
  void move() const {
    if (arrays_.plain.numel == 0) return;
    const View* const views[] = {&arrays_.plain, &arrays_.indexed, &arrays_.places};
    each_part(make_walk(views), [&](const HostWalk& part, bool) {
      MoveParams params{};
      fill_walk(params.walk, part);
      params.plain = part.data[0];
      params.indexed = part.data[1];
      params.places = part.data[2];
      params.count = static_cast<unsigned>(part.count());
      Launch{context_.op, context_.device.index}(move_elements<T, kAction>,
                                                 blocks_for(params.count), dim3(kThreads), params);
    });
  }

  void in_order(void (*write)(const OrderedWrite&)) const {
    const int device = context_.device.index;
    const int64_t count = arrays_.common.numel();
    check(count < int64_t{1} << 31, context_.op,
          ": more than 2^31 places in deterministic order are not supported on cuda");
    if (count == 0) return;
    const PairMemory memory(device, count);
    OrderedWrite job;
    job.op = context_.op;
    job.device = device;
    job.pairs = memory.pairs(0);
    job.spare = memory.pairs(1);
    job.count = count;
    job.nowhere = indexed_extent_;
    job.values = arrays_.plain;
    job.values.sizes = arrays_.common;
    job.values.strides = arrays_.in_plain;
    job.plain_lines = arrays_.plain;
    job.data_lines = arrays_.indexed;
    for (View* lines : {&job.plain_lines, &job.data_lines}) {
      for (int d = 0; d < arrays_.common.size(); ++d) lines->sizes[arrays_.first + d] = 1;
      lines->update();
    }
    Launch{context_.op, device}(pair_places, blocks_for(static_cast<unsigned>(count)),
                                dim3(kThreads), arrays_.places.as<const long long>(), job.pairs,
                                job.nowhere, count);
    write(job);
  }

  const KernelContext& context_;
  Arrays arrays_;
  uint64_t indexed_extent_;
  Scratch scratch_;
};

void index_kernel(const KernelContext& context, const IndexAttrs& attrs) {
  IndexedCopy(context, context.output(), context.input(0), attrs.dims, attrs.negative,
              context.in.subspan(1))
      .read();
}

void index_backward_kernel(const KernelContext& context, const IndexBackwardAttrs& attrs) {
  fill_elements(context.op, context.output(), 0);
  IndexedCopy(context, context.input(0), context.output(), attrs.dims, attrs.negative,
              context.in.subspan(1))
      .add();
}

void index_put_kernel(const KernelContext& context, const IndexPutAttrs& attrs) {
  const View& out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.op, context.input(0), out);
  const IndexedCopy copy(context, context.input(1), out, attrs.dims, attrs.negative,
                         context.in.subspan(2));
  if (attrs.accumulate)
    copy.add();
  else
    copy.write();
}

}  // namespace

void register_index_ops_cuda() {
  for (const auto* op : {&index_op, &index_select_op, &take_op})
    op->set_kernel(DeviceType::cuda, index_kernel);
  for (const auto* op : {&index_put_op, &index_add_op, &index_copy_op, &index_fill_op})
    op->set_kernel(DeviceType::cuda, index_put_kernel);
  index_backward_op.set_kernel(DeviceType::cuda, index_backward_kernel);
}

}  // namespace tensora::cuda
