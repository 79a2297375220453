// The bridge between Tensora's tensors and LibTorch's.
#include "tensora/torch/bridge.h"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <malloc.h>

#include <chrono>

#include "../helpers.h"
#include "tensora/core/backend.h"
#include "tensora/ops.h"
#include "tensora/torch/scope.h"

namespace tensora::torch {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;

std::vector<DType> plain_dtypes() {
  std::vector<DType> dtypes;
  for (const DTypeInfo& info : dtype_info_table)
    if (info.category != Category::quantized) dtypes.push_back(info.dtype);
  return dtypes;
}

std::vector<Device> devices() {
  std::vector<Device> found{Device()};
  if (is_available(DeviceType::cuda)) found.emplace_back("cuda");
  return found;
}

void expect_same(const Tensor& ours, const at::Tensor& theirs) {
  EXPECT_EQ(theirs.data_ptr(), ours.data_ptr());
  EXPECT_EQ(theirs.scalar_type(), torch_dtype(ours.dtype()));
  EXPECT_EQ(theirs.device(), torch_device(ours.device()));
  ASSERT_EQ(theirs.dim(), ours.dim());
  for (int64_t i = 0; i < ours.dim(); ++i) {
    EXPECT_EQ(theirs.size(i), ours.size(i));
    EXPECT_EQ(theirs.stride(i), ours.stride(i));
  }
}

TEST(TorchBridge, EveryDTypeCrossesWithoutACopy) {
  for (const Device device : devices())
    for (const DType dtype : plain_dtypes()) {
      SCOPED_TRACE(concat(dtype, " on ", device));
      const Tensor ours = empty({2, 3}, {.dtype = dtype, .device = device});
      const at::Tensor theirs = to_torch(ours);
      expect_same(ours, theirs);
      const Tensor back = from_torch(theirs);
      expect_same(back, theirs);
      EXPECT_EQ(back.dtype(), dtype);
    }
}

TEST(TorchBridge, AnyStridesAndOffsets) {
  const Tensor base = arange(120).to(kFloat32).reshape({4, 5, 6});
  const Tensor views[] = {base.transpose(0, 2),
                          base.narrow(1, 2, 3).narrow(2, 1, 4),
                          base.select(0, 3).t(),
                          base.select(0, 1).select(0, 2).select(0, 3),
                          base.narrow(0, 0, 1).expand({7, 5, 6}),
                          base.permute({2, 0, 1}).narrow(0, 5, 1)};
  for (const Tensor& view : views) {
    SCOPED_TRACE(concat(view.sizes(), " ", view.strides()));
    const at::Tensor theirs = to_torch(view);
    expect_same(view, theirs);
    EXPECT_EQ(theirs.to(at::kDouble).sum().item<double>(), view.sum().item<double>());
    expect_same(from_torch(theirs), theirs);
    EXPECT_EQ(from_torch(theirs).sum().item<double>(), view.sum().item<double>());
  }
  const at::Tensor theirs = at::arange(24).view({2, 3, 4}).transpose(0, 2).slice(0, 1, 4, 2);
  expect_same(from_torch(theirs), theirs);
  EXPECT_EQ(from_torch(theirs).sum().item<int64_t>(), theirs.sum().item<int64_t>());
}

TEST(TorchBridge, TensorsWithoutElements) {
  const at::Tensor theirs = to_torch(empty({0, 3}, {.dtype = kInt32}));
  EXPECT_EQ(theirs.sizes(), (at::IntArrayRef{0, 3}));
  EXPECT_EQ(theirs.scalar_type(), at::kInt);
  EXPECT_EQ(from_torch(at::empty({2, 0}, at::kHalf)).sizes(), (Shape{2, 0}));
  EXPECT_EQ(from_torch(at::scalar_tensor(3.5, at::kDouble)).item<double>(), 3.5);
}

TEST(TorchBridge, WritesAreSeenOnBothSides) {
  const Tensor ours = zeros({3});
  at::Tensor theirs = to_torch(ours);
  theirs.add_(2);
  EXPECT_EQ(to_vector<float>(ours), (std::vector<float>{2, 2, 2}));
  ours.narrow(0, 1, 1).fill_(7);
  EXPECT_EQ(theirs[1].item<float>(), 7);
}

TEST(TorchBridge, EachLibraryKeepsTheOthersMemory) {
  struct Sentinel {
    bool* alive;
    ~Sentinel() { *alive = false; }
  };
  bool alive = true;
  float numbers[4] = {1, 2, 3, 4};
  at::Tensor theirs;
  {
    const Tensor ours = from_blob(numbers, {4}, {}, std::make_shared<Sentinel>(&alive));
    theirs = to_torch(ours);
  }
  EXPECT_TRUE(alive);
  EXPECT_EQ(theirs.sum().item<float>(), 10);
  Tensor again = from_torch(theirs).narrow(0, 2, 2);
  theirs = at::Tensor();
  EXPECT_TRUE(alive);
  EXPECT_EQ(again.sum().item<float>(), 7);
  again = Tensor();
  EXPECT_FALSE(alive);

  Tensor ours;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage(c10::intrusive_ptr<c10::StorageImpl>{});
  {
    const at::Tensor made = at::ones({1000});
    storage = c10::weak_intrusive_ptr<c10::StorageImpl>(made.storage().getWeakStorageImpl());
    ours = from_torch(made);
  }
  EXPECT_FALSE(storage.expired());
  EXPECT_EQ(ours.sum().item<float>(), 1000);
  ours = Tensor();
  EXPECT_TRUE(storage.expired());
}

// Bytes that the program has from malloc.
size_t allocated() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

TEST(TorchBridge, TenThousandCrossingsLeakNothing) {
  const Tensor ours = ones({64, 64});
  const auto cross = [&] {
    Tensor at_home = ours;
    for (int i = 0; i < 10; ++i) at_home = from_torch(to_torch(at_home).t());
    ASSERT_EQ(at_home.data_ptr(), ours.data_ptr());
    Tensor packed = from_dlpack(at::toDLPackVersioned(at::fromDLPackVersioned(to_dlpack(ours))));
    ASSERT_EQ(packed.data_ptr(), ours.data_ptr());
  };
  for (int i = 0; i < 100; ++i) cross();
  const size_t before = allocated();
  for (int i = 0; i < 1000; ++i) cross();
  EXPECT_LT(allocated(), before + 4096);
}

TEST(TorchBridge, DLPackCrossesBothWays) {
  for (const DType dtype : plain_dtypes()) {
    SCOPED_TRACE(concat(dtype));
    const Tensor ours = empty({3, 4}, {.dtype = dtype}).t().narrow(0, 1, 2);
    const at::Tensor theirs = at::fromDLPackVersioned(to_dlpack(ours));
    expect_same(ours, theirs);
    const Tensor back = from_dlpack(at::toDLPackVersioned(theirs));
    expect_same(back, theirs);
  }
  const float number = 1;
  DLManagedTensorVersioned* const fixed = to_dlpack(from_blob(&number, {1}));
  EXPECT_NE(fixed->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0u);
  EXPECT_TRUE(contains(error_of([&] { from_dlpack(fixed).fill_(2); }), "const memory"));
}

TEST(TorchBridge, RefusesWhatCannotCross) {
  const auto says = [](const auto& body, const char* sentence) {
    const std::string error = error_of(body);
    EXPECT_TRUE(contains(error, sentence)) << error;
  };
  says([] { to_torch({}); }, "undefined");
  says([] { to_torch(quantize(ones({2, 32}), kQ8_0)); }, "dequantize the tensor first");
  says([] { to_torch(ones({2}).requires_grad_()); }, "call detach");
  says([] { to_torch(empty({2}, {.device = "meta"})); }, "expected a tensor on the CPU or on CUDA");
  says([] { from_torch({}); }, "undefined");
  says([] { from_torch(at::ones({2, 2}).to_sparse()); }, "strided");
  says([] { from_torch(at::ones({2}, at::kComplexFloat).conj()); }, "resolve_conj");
  says([] { from_torch(at::ones({2}).requires_grad_()); }, "call detach");
  says([] { from_torch(at::empty({2}, at::device(at::kMeta))); }, "meta");
  DLManagedTensorVersioned* managed = to_dlpack(ones({2}));
  managed->version.major = 2;
  says([&] { from_dlpack(managed); }, "expected DLPack 1.x, got 2");
  managed = to_dlpack(ones({2}));
  managed->dl_tensor.dtype.lanes = 4;
  says([&] { from_dlpack(managed); }, "there is no dtype");
  managed = to_dlpack(ones({2}));
  managed->dl_tensor.ndim = -1;
  says([&] { from_dlpack(managed); }, "expected a size for each dimension, got -1");
  managed = to_dlpack(ones({2}));
  managed->dl_tensor.shape = nullptr;
  says([&] { from_dlpack(managed); }, "got 1 dimensions without sizes");
}

// The promise is 0.3 microseconds; other programs on the machine may take ten times that.
TEST(TorchBridge, ACrossingIsQuick) {
  const Tensor ours = ones({8, 8});
  const at::Tensor theirs = to_torch(ours);
  double best_to = 1, best_from = 1;
  constexpr int kTimes = 2000;
  const auto seconds = [](const auto& body) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / kTimes;
  };
  for (int i = 0; i < 20; ++i) {
    best_to = std::min(best_to, seconds([&] { to_torch(ours); }));
    best_from = std::min(best_from, seconds([&] { from_torch(theirs); }));
  }
  RecordProperty("to_torch_ns", static_cast<int>(best_to * 1e9));
  RecordProperty("from_torch_ns", static_cast<int>(best_from * 1e9));
  std::cout << "to_torch " << best_to * 1e9 << " ns, from_torch " << best_from * 1e9 << " ns\n";
  EXPECT_LT(best_to, 3e-6);
  EXPECT_LT(best_from, 3e-6);
}

}  // namespace
}  // namespace tensora::torch
