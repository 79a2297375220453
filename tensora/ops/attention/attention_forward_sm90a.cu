#include "tensora/ops/attention/attention_forward_hopper.cuh"

namespace tensora::cuda {
namespace {

using namespace hopper;

/// Arrays of four dims. Rows and keys are counted alike, so causal tiles are aligned.
struct WholeProblem {
  AttentionCall call;
  CUtensorMap query, key, value;

  static constexpr bool kMaySeeNothing = false;

  struct Work {
    int first, steps, head, batch;
    static constexpr int begin = 0;
  };
  struct Row {
    int number;
  };

  __device__ Work work(const TileOrder& tiles, int number) const {
    const TileOrder::Place place = tiles.at(number, call.heads);
    const int first = (tiles.tiles - 1 - place.tile) * kRows;  // the most keys first
    const int keys = static_cast<int>(call.keys);
    const int end = call.causal ? min(keys, first + kRows) : keys;
    return {first, (end + kKeys - 1) / kKeys, place.head, place.batch};
  }
  __device__ static constexpr int loaders() { return 1; }
  __device__ static Row find(const Work&, int tile) { return {tile * kKeys}; }
  template <int width>
  __device__ static void load_box(const CUtensorMap& map, int row, int head, int batch, unsigned to,
                                  unsigned barrier) {
#pragma unroll
    for (unsigned panel = 0; panel < HopperTile<width>::kPanels; ++panel)
      copy_box(to + panel * HopperTile<width>::kPanelBytes, map, static_cast<int>(panel) * 64, row,
               head, batch, barrier);
  }
  template <int width>
  __device__ void load_query(const Work& work, unsigned to, unsigned barrier) const {
    load_box<width>(query, work.first, work.head, work.batch, to, barrier);
  }
  template <int width>
  __device__ void load(const CUtensorMap& map, const Work& work, Row row, unsigned to,
                       unsigned barrier) const {
    load_box<width>(map, row.number, work.head / (call.heads / call.groups), work.batch, to,
                    barrier);
  }
  __device__ static constexpr bool hides_some(const Work&, int) { return false; }
  __device__ bool hides(int q, int k) const {
    return k >= static_cast<int>(call.keys) || (call.causal && k > q);
  }
  __device__ static constexpr int held(const Work&) { return kKeys; }  // the TMA gives zeros
  __device__ float factor() const { return static_cast<float>(call.scale) * kLog2E; }
  __device__ int value_size() const { return call.value_size; }
  __device__ char* store_row(const Work& work, int query_row, float largest, float total) const {
    const int queries = static_cast<int>(call.queries);
    if (query_row >= queries) return nullptr;
    const int64_t line = (int64_t{work.batch} * call.heads + work.head) * queries + query_row;
    if (threadIdx.x % 4 == 0)
      static_cast<float*>(call.logarithms)[line] =
          total == 0 ? kHidden : (largest * factor() + __log2f(total)) / kLog2E;
    const Array4& out = call.result;
    return out.data +
           (work.batch * out.strides[0] + work.head * out.strides[1] + query_row * out.strides[2]) *
               2;
  }
};

template <class T, int width>
void launch(std::string_view op, int device, const WholeProblem& problem) {
  const AttentionCall& call = problem.call;
  const int64_t per_head = call.keys * width * 4 * call.groups / call.heads;
  launch_on_hopper<T, width>(op, device, problem,
                             tile_order(op, call.queries, call.sequences * call.heads, per_head));
}

}  // namespace

bool forward_on_hopper(std::string_view op, int device, const AttentionCall& call) {
  const int widest = std::max(call.head_size, call.value_size);
  const int64_t batch = call.sequences, q = call.queries, k = call.keys;
  if (widest > 128 || has_extras(call) || call.starts_q || k == 0) return false;
  WholeProblem problem{.call = call};
  if (!describe_boxes(call.query, call.head_size, q, call.heads, batch, 128, problem.query) ||
      !describe_boxes(call.key, call.head_size, k, call.groups, batch, 128, problem.key) ||
      !describe_boxes(call.value, call.value_size, k, call.groups, batch, 128, problem.value))
    return false;
  const auto run = [&]<class T>() {
    if (widest <= 64)
      launch<T, 64>(op, device, problem);
    else
      launch<T, 128>(op, device, problem);
  };
  if (call.query.element == Element::bfloat16)
    run.template operator()<BFloat16>();
  else
    run.template operator()<Half>();
  return true;
}

}  // namespace tensora::cuda
