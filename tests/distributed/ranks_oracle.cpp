#include "tests/distributed/ranks_oracle.h"

#include "tensora/io/safetensors.h"
#include "tensora/tensora.h"

namespace tensora::testing {
namespace {

View view(const Tensor& tensor) { return tensor.view_of_data(); }

Tensor vector_like(const Tensor& x, int64_t n) { return zeros({n}, {.dtype = x.dtype()}); }

// How many elements a rank sends to another in all_to_all with counts.
int64_t sent(int from, int to, int64_t part) { return (from + 2 * to) % 3 * part / 2; }

Tensor all_to_all_with_counts(ProcessGroup& world, const Tensor& x, int64_t part) {
  std::vector<int64_t> in_counts, out_counts;
  int64_t in = 0, out = 0;
  for (int r = 0; r < world.size(); ++r) {
    in += in_counts.emplace_back(sent(world.rank(), r, part));
    out += out_counts.emplace_back(sent(r, world.rank(), part));
  }
  const Tensor given = x.repeat({2}).narrow(0, 0, in).contiguous(), result = vector_like(x, out);
  world.all_to_all(view(result), out_counts, view(given), in_counts)->wait();
  return result;
}

void make_calls(ProcessGroup& world, const std::string& name, const Tensor& x, StateDict& results) {
  const int ranks = world.size(), rank = world.rank();
  const int64_t n = x.numel(), part = n / ranks;
  const auto add = [&](const char* call, const Tensor& result) {
    results.insert(concat(call, ".", name), result);
  };
  for (const ReduceOp op :
       {ReduceOp::sum, ReduceOp::product, ReduceOp::minimum, ReduceOp::maximum}) {
    const Tensor all = x.clone(), one = x.clone(), scattered = vector_like(x, part);
    world.all_reduce(view(all), op)->wait();
    add(concat("all_reduce_", tensora::name(op)).c_str(), all);
    world.reduce(view(one), ranks - 1, op)->wait();
    if (rank == ranks - 1) add(concat("reduce_", tensora::name(op)).c_str(), one);
    world.reduce_scatter(view(scattered), view(x), op)->wait();
    add(concat("reduce_scatter_", tensora::name(op)).c_str(), scattered);
  }
  const Tensor gathered = vector_like(x, n * ranks), exchanged = vector_like(x, n);
  world.all_gather(view(gathered), view(x))->wait();
  add("all_gather", gathered);
  world.all_to_all(view(exchanged), view(x))->wait();
  add("all_to_all", exchanged);
  add("all_to_all_counts", all_to_all_with_counts(world, x, part));
  const Tensor told = x.clone(), passed = vector_like(x, n);
  world.broadcast(view(told), 1)->wait();
  add("broadcast", told);
  const WorkPtr to_next = world.send(view(x), (rank + 1) % ranks);
  world.recv(view(passed), (rank + ranks - 1) % ranks)->wait();
  to_next->wait();
  add("send_recv", passed);
  world.barrier();
}

}  // namespace

void make_all_calls(ProcessGroup& world, const std::string& folder) {
  StateDict results;
  for (const auto& [name, x] :
       io::load_safetensors(concat(folder, "/in-", world.rank(), ".safetensors")))
    make_calls(world, name, x.contiguous(), results);
  io::save_safetensors(results, concat(folder, "/out-", world.rank(), ".safetensors"));
}

}  // namespace tensora::testing
