// torch::data.
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using namespace torch::data;  // NOLINT: as in LibTorch's programs

struct Squares : datasets::Dataset<Squares> {
  explicit Squares(size_t count) : count(count) {}
  Example<> get(size_t index) override {
    const auto i = static_cast<int64_t>(index);
    TORCH_CHECK(i != failing, "example ", i, " is broken");
    return {torch::full({2}, i, torch::kFloat), torch::tensor(i * i)};
  }
  std::optional<size_t> size() const override { return count; }
  size_t count;
  int64_t failing = -1;
};

TEST(LibTorchData, StacksBatchesInOrder) {
  for (size_t workers : {0, 3}) {
    auto loader = make_data_loader<samplers::SequentialSampler>(
        Squares(10).map(transforms::Stack<>()), DataLoaderOptions().batch_size(4).workers(workers));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> sizes;
      int64_t next = 0;
      for (auto& batch : *loader) {
        sizes.push_back(batch.data.size(0));
        for (int64_t i = 0; i < batch.data.size(0); ++i, ++next) {
          EXPECT_EQ(batch.data[i][1].item<int64_t>(), next);
          EXPECT_EQ(batch.target[i].item<int64_t>(), next * next);
        }
      }
      EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
    }
  }
}

TEST(LibTorchData, RandomOrderAndDropLast) {
  auto loader = make_data_loader(Squares(10), DataLoaderOptions(4).drop_last(true));
  std::vector<bool> seen(10);
  size_t count = 0;
  for (auto& batch : *loader)
    for (auto& example : batch) {
      const auto index = static_cast<size_t>(example.data[0].item<int64_t>());
      EXPECT_FALSE(seen[index]);
      seen[index] = true;
      ++count;
    }
  EXPECT_EQ(count, 8u);
}

TEST(LibTorchData, WorkersPassExceptionsOn) {
  Squares broken(6);
  broken.failing = 3;
  auto loader = make_data_loader<samplers::SequentialSampler>(
      broken, DataLoaderOptions().batch_size(2).workers(2));
  auto iterator = loader->begin();
  EXPECT_EQ(iterator->size(), 2u);
  EXPECT_THROW(++iterator, WorkerException);
}

TEST(LibTorchData, TransformsAndStatefulSets) {
  transforms::Normalize<> normalize(0.5, 0.25);
  EXPECT_EQ(normalize(torch::ones({1, 2, 2})).sum().item<float>(), 8);
  struct Counter : datasets::StatefulDataset<Counter, int, size_t> {
    std::optional<int> get_batch(size_t) override {
      return count < 3 ? std::optional<int>(count++) : std::nullopt;
    }
    std::optional<size_t> size() const override { return 3; }
    void reset() override { count = 0; }
    void save(torch::serialize::OutputArchive&) const override {}
    void load(torch::serialize::InputArchive&) override {}
    int count = 0;
  };
  auto loader = make_data_loader(datasets::make_shared_dataset<Counter>());
  for (int epoch = 0; epoch < 2; ++epoch) {
    int sum = 0;
    for (int batch : *loader) sum += batch;
    EXPECT_EQ(sum, 3);
  }
}

}  // namespace
