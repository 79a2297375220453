#include <numeric>
#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/ordered.h"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/small_vector.h"
#include "tensora/core/determinism.h"
#include "tensora/ops/index/index_ops.h"

// Note [Indexed copies on the GPU]
// Indexing pairs a plain array (the result, or the values to write) with an indexed one:
//   plain[outer, place, inner]  <->  indexed[outer, offset of place, inner]
// With one index tensor, as for index_select, take and embeddings, a thread follows the index and
// moves, or adds, one element. With several, a first kernel per index tensor adds up the offsets of
// all places, which the threads then read. Places may occur more than once: see
// Note [Order of colliding writes].

namespace tensora::cuda {
namespace {

constexpr long long kNowhere = -(1ll << 62);  // marks an invalid index

struct PlaceParams {
  Walk<2> walk;  // places, index
  char *places, *index;
  long long step;  // stride in bytes of the indexed array along the dim
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
__device__ inline void put(T* place, const T& value) {
  if constexpr (kAction == Action::write)
    *place = value;
  else
    atomic_add(place, value);
}

// `place` is null where the index was wrong.
template <class T, Action kAction>
__device__ inline void move_element(T* plain, T* place) {
  if constexpr (kAction == Action::read)
    *plain = place ? *place : T{};
  else if (place)
    put<T, kAction>(place, *plain);
}

struct FollowParams {
  Walk<3> walk;  // plain, indexed (at position 0 of the dim), index
  char *plain, *indexed, *index;
  long long step;  // as in PlaceParams
  IndexLimits limits;
  DType index_dtype;
  unsigned count;
};

/// Elements of a thread where there are many. It reads all their indices, then all elements, so
/// that it waits for memory twice and not twice per element.
constexpr unsigned kMany = 4;

template <class T, Action kAction, unsigned kEach>
__global__ void __launch_bounds__(kThreads)
    follow_index(const __grid_constant__ FollowParams params) {
  const unsigned first = blockIdx.x * (kThreads * kEach) + threadIdx.x;
  T* plain[kEach];
  char* place[kEach];
  long long index[kEach];
#pragma unroll
  for (unsigned k = 0; k < kEach; ++k) {
    plain[k] = nullptr;
    const unsigned i = first + k * kThreads;
    if (i >= params.count) continue;
    int at[3];
    params.walk.offsets(i, at);
    plain[k] = reinterpret_cast<T*>(params.plain + at[0]);
    place[k] = params.indexed + at[1];
    index[k] = raw_index(params.index, at[2], params.index_dtype);
  }
  T values[kEach];
#pragma unroll
  for (unsigned k = 0; k < kEach; ++k) {
    if (!plain[k]) continue;
    const long long position = checked_index(index[k], params.limits);
    place[k] = position < 0 ? nullptr : place[k] + position * params.step;
    if constexpr (kAction != Action::read)
      values[k] = *plain[k];
    else
      values[k] = place[k] ? *reinterpret_cast<const T*>(place[k]) : T{};
  }
#pragma unroll
  for (unsigned k = 0; k < kEach; ++k) {
    if (!plain[k]) continue;
    if constexpr (kAction == Action::read)
      *plain[k] = values[k];
    else if (place[k])
      put<T, kAction>(reinterpret_cast<T*>(place[k]), values[k]);
  }
}

template <class T, Action kAction>
__global__ void __launch_bounds__(kThreads)
    move_elements(const __grid_constant__ MoveParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[3];
  params.walk.offsets(i, at);
  const long long place = *reinterpret_cast<const long long*>(params.places + at[2]);
  move_element<T, kAction>(
      reinterpret_cast<T*>(params.plain + at[0]),
      reinterpret_cast<T*>(place == kNowhere ? nullptr : params.indexed + at[1] + place));
}

__global__ void __launch_bounds__(kThreads)
    pair_places(const long long* places, SortPairs pairs, uint64_t nowhere, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  pairs.keys[i] = places[i] == kNowhere ? nowhere : static_cast<uint64_t>(places[i]);
  pairs.values[i] = static_cast<uint32_t>(i);
}

// Note [Wide indexed copies]
// Where the index does not vary along the innermost dim, as for the rows of a table, neighbouring
// elements have the same position and are moved as one wide element of up to 16 bytes. Adding needs
// the elements themselves.

/// The dtype whose elements have that many bytes and are moved as they are.
DType dtype_of_bytes(int64_t bytes) {
  switch (bytes) {
    case 1:
      return DType::uint8;
    case 2:
      return DType::int16;
    case 4:
      return DType::int32;
    case 8:
      return DType::int64;
    default:
      return DType::complex128;
  }
}

/// Makes a walk over plain, indexed and positions one of wide elements, if it can be; returns their
/// size in bytes. `step` is the distance between positions in the indexed array, if it is fixed.
int64_t widen(HostWalk& walk, int64_t bytes, int64_t step) {
  if (walk.strides[2][0] != 0) return bytes;
  int64_t group = 16 / bytes;
  const auto fits = [&] {
    return walk.sizes[0] % group == 0 && step % (bytes * group) == 0 &&
           has_groups(walk, 0, bytes, group) && has_groups(walk, 1, bytes, group);
  };
  while (group > 1 && !fits()) group /= 2;
  if (group <= 1) return bytes;
  for (int k = 0; k < 2; ++k) walk.strides[k][0] *= group;
  walk.sizes[0] /= group;
  return bytes * group;
}

dim3 blocks_for(unsigned count) { return dim3((count + kThreads - 1) / kThreads); }

/// The arrays of an indexed copy as views of one shape.
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
        source_(indexed),
        dims_(dims),
        negative_(negative),
        indices_(indices),
        arrays_(lay_out(plain, indexed, dims, indices)) {}

  void read() { run<Action::read>(); }
  void write() {
    if (is_deterministic()) return in_order(write_in_order);
    run<Action::write>();
  }
  void add() {
    if (is_deterministic() && is_differentiable(arrays_.plain.dtype)) return in_order(add_in_order);
    run<Action::add>();
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

  /// Whether so many elements occupy the device if a thread has kMany of them.
  bool is_many(unsigned count) const {
    constexpr int64_t kResident = 2048;  // threads of a multiprocessor
    return count >= device_info(context_.device.index).multiprocessors * kResident * kMany;
  }
  int64_t step_along(int dim) const {
    return source_.strides[dim] * static_cast<int64_t>(element_size(source_.dtype));
  }
  IndexLimits limits_of(int dim) const {
    const int64_t size = source_.sizes[dim];
    return {context_.op.data(), device_fault(context_.device.index),
            negative_ == Negative::wrapped ? -size : 0, size, dim};
  }

  // The offsets of all places, for several index tensors or to be sorted.
  void find_places() {
    if (places_) return;
    places_.emplace(context_.device.index, static_cast<size_t>(arrays_.common.numel()) * 8);
    arrays_.places.data = places_->data();
    View flat = arrays_.places;
    flat.sizes = arrays_.common;
    flat.strides = contiguous_strides(arrays_.common);
    flat.update();
    for (int i = 0; i < dims_.size(); ++i)
      add_index(flat, *indices_[static_cast<size_t>(i)], static_cast<int>(dims_[i]), i == 0);
  }

  void add_index(const View& flat, const View& index, int dim, bool is_first) const {
    if (flat.numel == 0) return;
    const View* const views[] = {&flat, &index};
    PlaceParams params{};
    params.step = step_along(dim);
    params.limits = limits_of(dim);
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

  template <Action kAction>
  void run() {
    if (arrays_.plain.numel == 0) return find_places();  // wrong indices are noted all the same
    if (indices_.size() == 1) return follow<kAction>();
    find_places();
    move<kAction>();
  }

  /// body<T>() with the type of the elements that are moved: wide ones, or those that are added.
  template <Action kAction, class Body>
  void visit_moved(HostWalk& walk, int64_t step, Body&& body) const {
    if constexpr (kAction == Action::add) {
      visit_computing(arrays_.plain.dtype, body);
    } else {
      const auto bytes = static_cast<int64_t>(element_size(arrays_.plain.dtype));
      visit_element_size(dtype_of_bytes(widen(walk, bytes, step)), body);
    }
  }

  template <Action kAction>
  void follow() const {
    View index = arrays_.places;
    index.data = indices_[0]->data;
    index.dtype = indices_[0]->dtype;
    for (int d = 0; d < indices_[0]->dim(); ++d)
      index.strides[arrays_.first + d] = indices_[0]->strides[d];
    index.update();
    FollowParams params{};
    const auto dim = static_cast<int>(dims_[0]);
    params.step = step_along(dim);
    params.limits = limits_of(dim);
    params.index_dtype = index.dtype;
    const View* const views[] = {&arrays_.plain, &arrays_.indexed, &index};
    HostWalk walk = make_walk(views);
    visit_moved<kAction>(walk, params.step, [&]<class T>() {
      each_part(walk, [&](const HostWalk& part, bool) {
        fill_walk(params.walk, part);
        params.plain = part.data[0];
        params.indexed = part.data[1];
        params.index = part.data[2];
        params.count = static_cast<unsigned>(part.count());
        const Launch launch{context_.op, context_.device.index};
        // Additions are queued and not waited for.
        constexpr unsigned kEach = kAction == Action::add ? 1 : kMany;
        if (is_many(params.count))
          launch(follow_index<T, kAction, kEach>, blocks_for((params.count + kEach - 1) / kEach),
                 dim3(kThreads), params);
        else
          launch(follow_index<T, kAction, 1>, blocks_for(params.count), dim3(kThreads), params);
      });
    });
  }

  template <Action kAction>
  void move() const {
    const View* const views[] = {&arrays_.plain, &arrays_.indexed, &arrays_.places};
    HostWalk walk = make_walk(views);
    int64_t step = 0;  // every offset is a multiple of this
    for (int64_t dim : dims_) step = std::gcd(step, step_along(static_cast<int>(dim)));
    visit_moved<kAction>(walk, step, [&]<class T>() {
      each_part(walk, [&](const HostWalk& part, bool) {
        MoveParams params{};
        fill_walk(params.walk, part);
        params.plain = part.data[0];
        params.indexed = part.data[1];
        params.places = part.data[2];
        params.count = static_cast<unsigned>(part.count());
        Launch{context_.op, context_.device.index}(
            move_elements<T, kAction>, blocks_for(params.count), dim3(kThreads), params);
      });
    });
  }

  void in_order(void (*write)(const OrderedWrite&)) {
    const int device = context_.device.index;
    const int64_t count = arrays_.common.numel();
    if (count == 0) return;
    find_places();
    const PairMemory memory(context_.op, device, count);
    OrderedWrite job;
    job.op = context_.op;
    job.device = device;
    job.pairs = memory.pairs(0);
    job.sorted = memory.pairs(1);
    job.count = count;
    job.nowhere = static_cast<uint64_t>(extent_bytes(source_));
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
  const View source_;
  const Dims dims_;
  const Negative negative_;
  const std::span<const View* const> indices_;
  Arrays arrays_;
  std::optional<Scratch> places_;
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
  IndexedCopy copy(context, context.input(1), out, attrs.dims, attrs.negative,
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
