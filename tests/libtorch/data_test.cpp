// torch::data.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <sstream>

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

// Chunks of 3, 4 and 5 numbers; chunk 1 cannot be read if `failing`.
struct Numbers : datasets::ChunkDataReader<int> {
  using BatchType = ChunkType;
  explicit Numbers(bool failing = false) : failing(failing) {}
  ChunkType read_chunk(size_t index) override {
    TORCH_CHECK(!failing || index != 1, "chunk 1 is broken");
    ChunkType chunk(3 + index);
    std::iota(chunk.begin(), chunk.end(), static_cast<int>(100 * index));
    return chunk;
  }
  size_t chunk_count() override { return 3; }
  void reset() override { ++epochs; }
  bool failing;
  int epochs = 0;
};
using InOrder = samplers::SequentialSampler;
using ChunksInOrder = datasets::ChunkDataset<Numbers, InOrder, InOrder>;

TEST(LibTorchData, ChunksBecomeBatches) {
  const std::vector<int> all{0, 1, 2, 100, 101, 102, 103, 200, 201, 202, 203, 204};
  for (const size_t preloaders : {1, 3})
    for (const size_t workers : {0, 2}) {
      auto dataset = datasets::make_shared_dataset<ChunksInOrder>(
          Numbers(), InOrder(0), InOrder(0), datasets::ChunkDatasetOptions(preloaders, 5, 6));
      auto loader = make_data_loader(dataset, DataLoaderOptions(5).workers(workers));
      for (int epoch = 0; epoch < 2; ++epoch) {
        std::vector<int> seen;
        for (auto& batch : *loader) {
          EXPECT_LE(batch.size(), 5u);
          seen.insert(seen.end(), batch.begin(), batch.end());
        }
        if (preloaders > 1 || workers > 0) std::ranges::sort(seen);
        EXPECT_EQ(seen, all);
      }
      loader->begin();  // the preloaders wait for room when all of this goes
    }
}

TEST(LibTorchData, ChunksAreMixedSavedAndReportErrors) {
  datasets::ChunkDataset<Numbers, InOrder> mixed(
      Numbers(), InOrder(0), samplers::RandomSampler(0), datasets::ChunkDatasetOptions(1, 7, 7, 2),
      [](std::vector<int>& examples) { examples.push_back(-1); });
  mixed.reset();
  auto first = *mixed.get_batch(7);
  std::ranges::sort(first);  // of chunks 0 and 1 with the number that was added
  EXPECT_TRUE(std::ranges::includes(std::vector<int>{-1, 0, 1, 2, 100, 101, 102, 103}, first));
  EXPECT_THROW(mixed.get_batch(3), c10::Error);

  InOrder position(3);
  position.next(2);
  std::stringstream file;
  torch::save(position, file);
  ChunksInOrder resumed(Numbers(), InOrder(3), InOrder(0), datasets::ChunkDatasetOptions(1, 9));
  torch::load(resumed, file);
  resumed.reset();
  EXPECT_EQ(resumed.get_batch(9)->front(), 200);
  EXPECT_FALSE(resumed.get_batch(9).has_value());
  resumed.reset();
  EXPECT_EQ(resumed.get_batch(9)->front(), 0);

  ChunksInOrder broken(Numbers(true), InOrder(0), InOrder(0), datasets::ChunkDatasetOptions(1, 8));
  broken.reset();
  EXPECT_THROW(broken.get_batch(8), WorkerException);
  EXPECT_EQ(broken.get_batch(8)->size(), 8u);  // of the other chunks
  EXPECT_THROW(datasets::ChunkDatasetOptions(1, 8, 7), c10::Error);
}

TEST(LibTorchData, DistributedSamplersShareEverything) {
  std::vector<size_t> all;
  for (size_t rank = 0; rank < 3; ++rank) {
    samplers::DistributedRandomSampler sampler(10, 3, rank);
    while (auto batch = sampler.next(3)) all.insert(all.end(), batch->begin(), batch->end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<size_t>{0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
