// The backend contract, kept by a third device: what docs/add-a-backend.md promises.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tensora/dispatch/op.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains, testing::error_of, testing::Values, testing::values;

const Device kToy = Device("toy");

Tensor toy(const Values& data, bool requires_grad = false) {
  return tensor(data, {.dtype = kFloat64, .device = kToy, .requires_grad = requires_grad});
}

/// The same sequence of ops on the CPU and on the toy gives the same numbers, the latter there.
void expect_same(const std::function<Tensor(Device)>& compute) {
  const Tensor expected = compute(Device()), got = compute(kToy);
  EXPECT_EQ(got.device(), kToy);
  EXPECT_EQ(got.dtype(), expected.dtype());
  EXPECT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(allclose(got.cpu(), expected)) << got << expected;
}

/// Whether the host may read a byte at the address: the system answers without a fault.
bool host_can_read(const void* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool readable = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

TEST(ToyDevice, IsFoundByNameAndCounted) {
  EXPECT_EQ(to_string(kToy), "toy:0");
  EXPECT_EQ(to_string(Device("toy:1")), "toy:1");
  EXPECT_EQ(Device("toy:1").type, kToy.type);
  EXPECT_EQ(name(kToy.type), "toy");
  EXPECT_EQ(unavailable_reason(kToy.type), "");
  EXPECT_EQ(backend(kToy.type).device_count(), 2);
}

TEST(ToyDevice, ALibraryOfAnotherVersionIsRefused) {
  const Device stale("stale");
  const std::string message = unavailable_reason(stale.type);
  EXPECT_TRUE(contains(message, concat("was built for version ", kBackendAbi + 7, " of")))
      << message;
  EXPECT_TRUE(contains(message, concat("this Tensora has version ", kBackendAbi, ";"))) << message;
  EXPECT_EQ(error_of([&] { ones({2}, {.device = stale}); }), message);
  // What the environment names instead has no such functions.
  Dl_info info;
  ASSERT_NE(
      dladdr(reinterpret_cast<void*>(static_cast<bool (*)(DeviceType)>(&is_available)), &info), 0);
  setenv("TENSORA_STALE_LIBRARY", info.dli_fname, 1);
  EXPECT_TRUE(contains(unavailable_reason(stale.type), "it has no function tensora_stale_backend"));
  unsetenv("TENSORA_STALE_LIBRARY");
}

TEST(ToyDevice, ItsSymbolsStayItsOwn) {
  ones({2}, {.device = kToy});
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "tensora_toy_backend"), nullptr);
}

TEST(ToyDevice, NamesAreGivenOnceByAllThreads) {
  std::vector<std::thread> threads;
  std::vector<Device> devices(8);
  for (Device& device : devices)
    threads.emplace_back([&device] { device = ones({2}, {.device = "toy"}).device(); });
  for (std::thread& thread : threads) thread.join();
  for (const Device& device : devices) EXPECT_EQ(device, kToy);
}

TEST(ToyDevice, HostMustNotTouchItsMemory) {
  const Tensor x = toy({1, 2, 3});
  EXPECT_FALSE(host_can_read(x.data_ptr()));
  EXPECT_TRUE(host_can_read(x.cpu().data_ptr()));
}

TEST(ToyDevice, DataTravelsBetweenAllDevices) {
  const Values data{1, -2, 3.5, 4};
  const Tensor first = toy(data), second = first.to(Device("toy:1"));
  EXPECT_EQ(values(first), data);
  EXPECT_EQ(second.device(), Device("toy:1"));
  EXPECT_EQ(values(second), data);
  EXPECT_EQ(values(second.to(kToy)), data);
  EXPECT_EQ(values(first.view({2, 2}).transpose(0, 1).to(Device("toy:1"))),
            (Values{1, 3.5, -2, 4}));
  EXPECT_EQ(first[2].item<double>(), 3.5);
  EXPECT_TRUE(first.to(Device("meta")).is_meta());
  const Tensor target = zeros({2, 2}, {.dtype = kFloat32, .device = kToy});
  target.copy_(tensor({7, 8}));
  EXPECT_EQ(values(target), (Values{7, 8, 7, 8}));
}

TEST(ToyDevice, OpsWithKernels) {
  for (const OpBase* op : {static_cast<const OpBase*>(&matmul_op), op_registry().find("add")})
    EXPECT_TRUE(op->has_kernel(kToy.type)) << op->name;
  expect_same([](Device device) {
    manual_seed(1);
    const Tensor a = randn({2, 3, 4}).to(device), b = randn({4, 5}).to(device);
    return matmul(a, b) * 2 + tensor(0.5);  // a 0-dim CPU tensor may join
  });
  expect_same([](Device device) {
    const Tensor x = arange(12).to(device).view({3, 4});
    return x.transpose(0, 1) - x[1].unsqueeze(1);
  });
  expect_same([](Device device) { return full({2, 3}, 7, {.device = device}).sum(0); });
  expect_same([](Device device) {
    const Tensor x = zeros({3, 4}, {.device = device});
    x.narrow(1, 1, 2).fill_(3);
    x[1] += 1;
    return x.exp();
  });
  expect_same([](Device device) { return tensor({1.7, -0.2}).to(device).to(kInt32); });
}

TEST(ToyDevice, OpsThroughTheirReferences) {
  for (const char* op : {"addmm", "mean", "cat", "stack", "tanh_backward", "clone"})
    EXPECT_FALSE(op_registry().find(op)->has_kernel(kToy.type)) << op;
  expect_same([](Device device) {
    manual_seed(2);
    const Tensor a = randn({3, 4}).to(device), b = randn({4, 2}).to(device);
    return addmm(ones({2}, {.device = device}), a, b, 0.5, 2);
  });
  expect_same([](Device device) {
    const Tensor x = arange(6, {.dtype = kFloat32}).to(device).view({2, 3});
    return cat({x, x.mean(Dims{0}, true)}, 0);
  });
  expect_same([](Device device) {
    const Tensor x = arange(3).to(device);
    return stack({x, x + 1}, -1);
  });
}

TEST(ToyDevice, AMistakeReadsAsOnTheCpu) {
  const auto message = [](Device device) {
    return error_of([&] {
      addmm(ones({5}, {.device = device}), ones({2, 3}, {.device = device}),
            ones({3, 4}, {.device = device}));
    });
  };
  EXPECT_TRUE(contains(message(kToy), "addmm: the input of shape [5]"));
  EXPECT_EQ(message(kToy), message(Device()));
}

TEST(ToyDevice, AnOpWithNeitherSaysSo) {
  const std::string message = error_of([] { cumsum(toy({1, 2}), 0); });
  EXPECT_EQ(message,
            "cumsum: there is no toy kernel for this op, and no definition in other ops; "
            "move its inputs to the cpu");
  EXPECT_EQ(cumsum(toy({1, 2}).cpu(), 0)[1].item<int>(), 3);
  EXPECT_EQ(values(toy({1, 2}) + 1), (Values{2, 3}));  // and the device goes on
}

TEST(ToyDevice, GradientsOfAnyOrder) {
  const Tensor x = toy({0.5, -1, 2}, true);
  const Tensor y = (x.tanh() * x).sum();
  const Tensor first = grad(y, {x}, {.create_graph = true})[0];
  EXPECT_EQ(first.device(), kToy);
  const Tensor second = grad(first.sum(), {x})[0];
  const Tensor host = tensor({0.5, -1, 2}, {.dtype = kFloat64});
  const Tensor t = host.tanh(), slope = 1 - t * t;
  EXPECT_TRUE(allclose(first.detach().cpu(), t + host * slope));
  EXPECT_TRUE(allclose(second.cpu(), 2 * slope - 2 * host * t * slope));
}

TEST(ToyDevice, GradientsAccumulateInPlace) {
  const Tensor w = toy({1, 2}, true);
  (w * w).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{2, 4}));
  const void* where = w.grad().data_ptr();
  (w * 3).sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{5, 7}));
  EXPECT_EQ(w.grad().data_ptr(), where);
  EXPECT_EQ(w.grad().device(), kToy);
}

TEST(ToyDevice, GradientsCrossDevicesAndViews) {
  const Tensor host = testing::leaf({1, 2, 3, 4});
  const Tensor moved = host.to(kToy).view({2, 2});
  (moved[1] * toy({10, 20})).sum().backward();  // through slice_backward's reference
  EXPECT_EQ(values(host.grad()), (Values{0, 0, 10, 20}));
  EXPECT_TRUE(host.grad().is_cpu());
  const Tensor bias = toy({1, 1}, true);
  (zeros({3, 2}, {.dtype = kFloat64, .device = kToy}) + bias).sum().backward();  // sum_to
  EXPECT_EQ(values(bias.grad()), (Values{3, 3}));
}

TEST(ToyDevice, InPlaceOpsOnViewsRebaseTheHistory) {
  const Tensor w = toy({1, 2, 3}, true);
  const Tensor y = w * 1;
  y.narrow(0, 0, 2).mul_(toy({5, 6}));
  y.sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{5, 6, 1}));
}

TEST(ToyDevice, ANetworkLearns) {
  manual_seed(0);
  const Tensor x = randn({64, 3}).to(kToy), target = (x.cpu().sum(Dims{1}, true) * 0.5).to(kToy);
  const Tensor w1 = (randn({3, 8}) * 0.5).to(kToy).requires_grad_();
  const Tensor w2 = (randn({8, 1}) * 0.5).to(kToy).requires_grad_();
  float before = 0, loss = 0;
  for (int step = 0; step < 60; ++step) {
    const Tensor error = matmul(matmul(x, w1).tanh(), w2) - target;
    const Tensor mean_square = (error * error).mean();
    mean_square.backward();
    loss = mean_square.item<float>();
    if (step == 0) before = loss;
    const no_grad update;
    for (const Tensor& w : {w1, w2}) {
      w.sub_(w.grad(), 0.2);
      w.set_grad({});
    }
  }
  EXPECT_LT(loss, before / 10);
}

TEST(ToyDevice, WrongIndexAndMixedDevices) {
  EXPECT_TRUE(contains(error_of([] { zeros({2}, {.device = "toy:2"}); }),
                       "toy:2 was asked for, but there are only 2 of kind toy"));
  EXPECT_TRUE(contains(error_of([] {
                         (void)(toy({1, 2}) + ones({2}));
                       }),
                       "add: expected all tensors on one device, got toy:0 and cpu"));
  EXPECT_TRUE(contains(error_of([] { (void)(toy({1}) * toy({1}).to(Device("toy:1"))); }),
                       "got toy:0 and toy:1"));
}

TEST(ToyDevice, OutOfMemoryIsSurvived) {
  const uint64_t before = memory_stats(kToy).allocated;
  std::string message;
  {
    std::vector<Tensor> kept;
    message = error_of([&] {
      while (true) kept.push_back(empty({1 << 20}, {.device = kToy}));
    });
    EXPECT_GE(kept.size(), 10u);
    EXPECT_GE(memory_stats(kToy).allocated, kept.size() << 22);
  }
  EXPECT_TRUE(contains(message, "toy:0: out of memory: 4194304 bytes")) << message;
  EXPECT_TRUE(contains(message, "largest free block")) << message;
  EXPECT_EQ(memory_stats(kToy).allocated, before);
  EXPECT_EQ(ones({1 << 20}, {.device = kToy}).sum().item<float>(), 1 << 20);
}

TEST(ToyDevice, TheLimitIsKept) {
  set_memory_limit(kToy, memory_stats(kToy).allocated + 5000);
  EXPECT_THROW(zeros({2000}, {.device = kToy}), OutOfMemoryError);
  EXPECT_NO_THROW(zeros({1000}, {.device = kToy}));
  set_memory_limit(kToy, 0);
  EXPECT_NO_THROW(zeros({2000}, {.device = kToy}));
}

TEST(ToyDevice, WorkIsQueuedInOrder) {
  const Tensor x = zeros({1000}, {.dtype = kInt64, .device = kToy});
  for (int i = 0; i < 200; ++i) {
    const Tensor step = x + 1;  // freed at once, and its memory used again by the next
    x.copy_(step);
  }
  synchronize(kToy);
  EXPECT_EQ(values(x), Values(1000, 200));
}

TEST(ToyDevice, Prints) {
  EXPECT_EQ(toy({1, 2.5}).to_string(),
            "tensor([1.0000, 2.5000], device='toy:0', dtype=torch.float64)");
}

TEST(ToyDevice, ALibraryThatIsNoBackend) {
  EXPECT_TRUE(contains(error_of([] { Device device("nosuch"); }), "unknown kind in 'nosuch'"));
  // Any readable file makes the name known; it is opened when a tensor is to go there.
  setenv("TENSORA_BROKEN_LIBRARY", "/proc/self/cmdline", 1);
  const Device broken("broken:1");
  EXPECT_EQ(to_string(broken), "broken:1");
  EXPECT_FALSE(is_available(broken.type));
  EXPECT_TRUE(contains(error_of([&] { zeros({2}, {.device = broken}); }),
                       "broken: the backend's library could not be opened"));
  setenv("TENSORA_BROKEN_LIBRARY", "libm.so.6", 1);
  EXPECT_TRUE(contains(unavailable_reason(broken.type),
                       "libm.so.6 is no backend for Tensora: it has no function "
                       "tensora_broken_backend"));
  unsetenv("TENSORA_BROKEN_LIBRARY");
}

}  // namespace
}  // namespace tensora
