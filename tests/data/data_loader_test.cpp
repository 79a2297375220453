#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "tensora/data.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using namespace tensora::data;
using Indices = std::vector<int64_t>;

/// Example i is {i, a random number}; some examples are slow, some throw.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t size, std::set<int64_t> broken = {}, int64_t slow_every = 0)
      : size_(size), broken_(std::move(broken)), slow_every_(slow_every) {}
  Example get(int64_t index) const override {
    if (slow_every_ && index % slow_every_ == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    check(!broken_.contains(index), "this one is broken");
    return {tensor(index), rand({2})};
  }
  int64_t size() const override { return size_; }

 private:
  int64_t size_;
  std::set<int64_t> broken_;
  int64_t slow_every_;
};

std::vector<Values> epoch_of(DataLoader& loader) {
  std::vector<Values> batches;
  for (auto& batch : loader) batches.push_back(values(batch[0]));
  return batches;
}

/// Everything that a batch holds, random numbers too.
std::vector<Values> everything(DataLoader& loader, int epochs) {
  std::vector<Values> result;
  for (int i = 0; i < epochs; ++i)
    for (auto& batch : loader)
      for (const Tensor& tensor : batch) result.push_back(values(tensor));
  return result;
}

TEST(DataLoader, GivesBatchesInOrder) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Numbers(7, {}, 3), {.batch_size = 3, .num_workers = workers});
    EXPECT_EQ(loader.size(), 3);
    const std::vector<Values> expected = {{0, 1, 2}, {3, 4, 5}, {6}};
    for (int epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(loader.epoch(), epoch);
      EXPECT_EQ(epoch_of(loader), expected) << workers << " workers, epoch " << epoch;
    }
  }
}

TEST(DataLoader, DropLast) {
  DataLoader loader(Numbers(7), {.batch_size = 3, .drop_last = true});
  EXPECT_EQ(loader.size(), 2);
  EXPECT_EQ(epoch_of(loader).size(), 2u);
  DataLoader none(Numbers(2), {.batch_size = 3, .num_workers = 1, .drop_last = true});
  EXPECT_EQ(epoch_of(none).size(), 0u);
  EXPECT_EQ(epoch_of(none).size(), 0u);
  EXPECT_EQ(none.epoch(), 2);
}

TEST(DataLoader, ShuffleGivesANewOrderEveryEpoch) {
  DataLoader loader(Numbers(50), {.batch_size = 50, .shuffle = true});
  const Values first = epoch_of(loader)[0], second = epoch_of(loader)[0];
  EXPECT_NE(first, second);
  Values sorted = second;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, values(arange(50)));
}

TEST(DataLoader, WorkersDoNotChangeWhatComes) {
  const auto run = [](int workers, int prefetch) {
    DataLoader loader(Numbers(23, {}, 4), {.batch_size = 4,
                                           .shuffle = true,
                                           .num_workers = workers,
                                           .prefetch_factor = prefetch,
                                           .seed = 5});
    return everything(loader, 3);
  };
  const auto expected = run(0, 2);
  EXPECT_EQ(run(1, 1), expected);
  EXPECT_EQ(run(2, 3), expected);
  EXPECT_EQ(run(5, 2), expected);
}

TEST(DataLoader, SeedComesFromTheGenerator) {
  const auto run = [](uint64_t seed) {
    manual_seed(seed);
    DataLoader loader(Numbers(20), {.batch_size = 20, .shuffle = true});
    return everything(loader, 1);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(DataLoader, RandomNumbersDifferByExampleAndEpoch) {
  DataLoader loader(Numbers(6), {.batch_size = 6, .seed = 1});
  std::set<double> seen;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& batch : loader)
      for (const double value : values(batch[1])) seen.insert(value);
  EXPECT_EQ(seen.size(), 24u);
}

TEST(DataLoader, TheCallersGeneratorIsLeftAlone) {
  DataLoader loader(Numbers(6), {.batch_size = 2, .seed = 1});
  manual_seed(9);
  const double expected = rand({1}).item<double>();
  manual_seed(9);
  everything(loader, 1);
  EXPECT_EQ(rand({1}).item<double>(), expected);
}

TEST(DataLoader, AnExceptionSaysWhichExample) {
  for (const int workers : {0, 2}) {
    DataLoader loader(Numbers(9, {4}), {.batch_size = 3, .num_workers = workers});
    EXPECT_TRUE(loader.next());
    const std::string message = error_of([&] { loader.next(); });
    EXPECT_TRUE(contains(message, "example 4 (batch 1 of epoch 0): this one is broken")) << message;
    // The next batch is there, and so is the end.
    EXPECT_EQ(values((*loader.next())[0]), (Values{6, 7, 8}));
    EXPECT_FALSE(loader.next());
    // A loop that throws gives up the rest of its epoch.
    EXPECT_THROW(epoch_of(loader), Error);
    EXPECT_EQ(loader.epoch(), 2);
    EXPECT_EQ(loader.position(), 0);
  }
}

TEST(DataLoader, TheOriginalExceptionIsNested) {
  struct Odd final : Dataset {
    Example get(int64_t) const override { throw std::out_of_range("odd"); }
    int64_t size() const override { return 1; }
  };
  DataLoader loader(Odd(), {.num_workers = 1});
  try {
    loader.next();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "example 0"));
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

TEST(DataLoader, AnExceptionAtTheEndOfAnEpochLeavesTheNextWhole) {
  DataLoader loader(Numbers(4, {3}), {.batch_size = 2, .num_workers = 1});
  EXPECT_THROW(epoch_of(loader), Error);
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_EQ(values((*loader.next())[0]), (Values{0, 1}));
}

TEST(DataLoader, ALoopLeftEarlyGivesUpItsEpoch) {
  for (const int workers : {0, 2}) {
    DataLoader loader(Numbers(100, {}, 10), {.batch_size = 2, .num_workers = workers});
    for (int epoch = 0; epoch < 4; ++epoch) {
      int64_t seen = 0;
      for (auto& batch : loader) {
        EXPECT_EQ(batch[0][0].item<int64_t>(), 2 * seen);
        if (++seen == 3) break;
      }
      EXPECT_EQ(loader.epoch(), epoch + 1);
      EXPECT_EQ(loader.position(), 0);
    }
  }
}

TEST(DataLoader, CanBeDestroyedAtAnyTime) {
  for (int taken = 0; taken < 6; ++taken) {
    DataLoader loader(Numbers(100, {7}, 5), {.batch_size = 4, .num_workers = 3});
    for (int i = 0; i < taken; ++i) error_of([&] { loader.next(); });
  }
}

TEST(DataLoader, WorkersGoOnIntoTheNextEpoch) {
  struct Counted final : Dataset {
    explicit Counted(std::atomic<int>& calls) : calls_(&calls) {}
    Example get(int64_t index) const override {
      ++*calls_;
      return {tensor(index)};
    }
    int64_t size() const override { return 4; }
    std::atomic<int>* calls_;
  };
  std::atomic<int> calls{0};
  DataLoader loader(Counted(calls), {.batch_size = 2, .num_workers = 1, .prefetch_factor = 4});
  loader.next();
  for (int i = 0; i < 400 && calls < 8; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(calls, 8);  // the second epoch's batches, while the first still lasts
}

TEST(DataLoader, ResumesWhereItWas) {
  const DataLoaderOptions options = {.batch_size = 3, .shuffle = true, .num_workers = 2, .seed = 8};
  const Numbers data(10, {}, 4);
  DataLoader whole(data, options);
  std::vector<Values> expected;  // of three epochs; an empty entry is the end of one
  std::vector<Value> states;
  for (int i = 0; i < 15; ++i) {
    states.push_back(whole.state_dict());
    const std::optional<Batch> batch = whole.next();
    expected.push_back(batch ? values((*batch)[1]) : Values{});
  }
  for (size_t start = 0; start < states.size(); ++start) {
    for (const int workers : {0, 2}) {
      DataLoaderOptions other = options;
      other.num_workers = workers;
      other.seed = 99;  // the state has the seed
      DataLoader resumed(data, other);
      if (start % 2) resumed.next();  // from the beginning, or from elsewhere
      resumed.load_state_dict(states[start]);
      for (size_t i = start; i < expected.size(); ++i) {
        const std::optional<Batch> batch = resumed.next();
        EXPECT_EQ(batch ? values((*batch)[1]) : Values{}, expected[i]) << start << " " << i;
      }
    }
  }
}

TEST(DataLoader, AStateFromWithinALoopContinuesTheEpoch) {
  DataLoader loader(Numbers(10), {.batch_size = 2});
  Value state;
  for (auto& batch : loader)
    if (batch[0][0].item<int64_t>() == 4) state = loader.state_dict();
  DataLoader resumed(Numbers(10), {.batch_size = 2});
  resumed.load_state_dict(state);
  EXPECT_EQ(epoch_of(resumed), (std::vector<Values>{{6, 7}, {8, 9}}));
  EXPECT_EQ(epoch_of(resumed).size(), 5u);
}

TEST(DataLoader, AStateThatDoesNotFit) {
  DataLoader loader(Numbers(10), {.batch_size = 2});
  loader.next();
  const Value state = loader.state_dict();
  DataLoader other(Numbers(10), {.batch_size = 5});
  EXPECT_TRUE(contains(error_of([&] { other.load_state_dict(state); }),
                       "a loader with 5 batches an epoch, but this one has 2"));
  EXPECT_TRUE(contains(error_of([&] { other.load_state_dict(Value::dict()); }), "seed"));
  EXPECT_TRUE(contains(error_of([&] { other.load_state_dict(Value(3)); }), "dict"));
  Value negative = state;
  negative["epoch"] = -1;
  EXPECT_TRUE(contains(error_of([&] { loader.load_state_dict(negative); }), "at least 0"));
  EXPECT_EQ(values((*other.next())[0]), (Values{0, 1, 2, 3, 4}));
}

TEST(DataLoader, SetEpoch) {
  const auto order = [](int64_t epoch, int workers) {
    DataLoader loader(Numbers(30),
                      {.batch_size = 30,
                       .sampler = std::make_shared<DistributedSampler>(
                           30, DistributedSamplerOptions{.num_replicas = 2, .rank = 1}),
                       .num_workers = workers});
    loader.next();
    loader.set_epoch(epoch);
    return values((*loader.next())[0]);
  };
  EXPECT_EQ(order(3, 0).size(), 15u);
  EXPECT_EQ(order(3, 0), order(3, 2));
  EXPECT_NE(order(3, 0), order(4, 0));
  DataLoader loader(Numbers(3));
  EXPECT_TRUE(contains(error_of([&] { loader.set_epoch(-1); }), "at least 0"));
}

TEST(DataLoader, CustomCollate) {
  struct Ragged final : Dataset {
    Example get(int64_t index) const override { return {ones({index + 1})}; }
    int64_t size() const override { return 4; }
  };
  const Collate pad_all = [](const std::vector<Example>& examples) {
    Batch batch = {zeros({static_cast<int64_t>(examples.size()), 4})};
    for (size_t i = 0; i < examples.size(); ++i)
      batch[0][static_cast<int64_t>(i)].slice(0, 0, examples[i][0].size(0)).fill_(1);
    return batch;
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(Ragged(), {.batch_size = 4, .num_workers = workers, .collate_fn = pad_all});
    EXPECT_EQ(values((*loader.next())[0].sum(1)), (Values{1, 2, 3, 4}));
    DataLoader plain(Ragged(), {.batch_size = 4, .num_workers = workers});
    const std::string message = error_of([&] { plain.next(); });
    EXPECT_TRUE(contains(message, "example 0 has shape [1]")) << message;
    EXPECT_TRUE(contains(message, "example 1 has shape [2]")) << message;
  }
}

TEST(DataLoader, TensorsAreGatheredInOneGo) {
  const Tensor x = rand({20, 3, 2}), y = arange(20);
  for (const int workers : {0, 2}) {
    DataLoader loader(TensorDataset(x, y),
                      {.batch_size = 6, .shuffle = true, .num_workers = workers});
    for (auto& batch : loader)
      EXPECT_TRUE(equal(batch[0], index_select(x, 0, batch[1]))) << batch[1];
  }
  const auto subset = random_split(TensorDataset(x, y), {10, 10})[1];
  DataLoader loader(subset, {.batch_size = 10});
  EXPECT_EQ((*loader.next())[1].sizes(), (Shape{10}));
}

TEST(DataLoader, StridedTensorsAndGradients) {
  const Tensor x = arange(12).reshape({2, 6}).t();
  DataLoader strided(TensorDataset(x), {.batch_size = 2});
  EXPECT_EQ(values((*strided.next())[0]), (Values{0, 6, 1, 7}));
  const Tensor w = leaf({1, 2, 3});
  DataLoader loader(TensorDataset(w), {.batch_size = 3});
  (*loader.next())[0].sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{1, 1, 1}));
}

class Counting final : public IterableDataset {
 public:
  explicit Counting(int64_t count, int64_t broken = -1) : count_(count), broken_(broken) {}
  std::unique_ptr<ExampleStream> open(int64_t epoch) const override {
    struct Stream final : ExampleStream {
      std::optional<Example> next() override {
        check(at != broken, "the stream broke");
        if (at == count) return {};
        return Example{tensor(100 * epoch + at++), rand({1})};
      }
      int64_t at = 0, count = 0, epoch = 0, broken = 0;
    };
    auto stream = std::make_unique<Stream>();
    stream->count = count_;
    stream->epoch = epoch;
    stream->broken = broken_;
    return stream;
  }

 private:
  int64_t count_, broken_;
};

TEST(DataLoader, IterableDataset) {
  const auto data = std::make_shared<Counting>(5);
  std::vector<Values> numbers;
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(data, {.batch_size = 2, .num_workers = workers, .seed = 1});
    EXPECT_EQ(epoch_of(loader), (std::vector<Values>{{0, 1}, {2, 3}, {4}}));
    EXPECT_EQ(epoch_of(loader), (std::vector<Values>{{100, 101}, {102, 103}, {104}}));
    loader.set_epoch(0);
    numbers.push_back(values((*loader.next())[1]));
    EXPECT_EQ(numbers.back(), numbers.front());
    DataLoader dropping(data, {.batch_size = 2, .num_workers = workers, .drop_last = true});
    EXPECT_EQ(epoch_of(dropping).size(), 2u);
    EXPECT_EQ(epoch_of(dropping).size(), 2u);
  }
}

TEST(DataLoader, IterableDatasetResumes) {
  const auto data = std::make_shared<Counting>(7);
  DataLoader loader(data, {.batch_size = 2, .num_workers = 1, .seed = 1});
  loader.next();
  loader.next();
  const Value state = loader.state_dict();
  const auto expected = everything(loader, 2);
  DataLoader resumed(data, {.batch_size = 2});
  resumed.load_state_dict(state);
  EXPECT_EQ(everything(resumed, 2), expected);
}

TEST(DataLoader, ABrokenStreamEndsItsEpoch) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Counting>(9, 3), {.batch_size = 2, .num_workers = workers});
    EXPECT_EQ(values((*loader.next())[0]), (Values{0, 1}));
    EXPECT_TRUE(contains(error_of([&] { loader.next(); }), "the stream broke"));
    EXPECT_EQ(loader.epoch(), 1);
    EXPECT_EQ(values((*loader.next())[0]), (Values{100, 101}));
  }
}

TEST(DataLoader, Mistakes) {
  const auto says = [](DataLoaderOptions options, std::string_view part) {
    const std::string message = error_of([&] { DataLoader(Numbers(3), options); });
    EXPECT_TRUE(contains(message, part)) << message;
  };
  const auto sampler = std::make_shared<SequentialSampler>(3);
  says({.batch_size = 0}, "batch_size above 0, got 0");
  says({.num_workers = -1}, "num_workers of at least 0, got -1");
  says({.prefetch_factor = 0}, "prefetch_factor above 0");
  says({.shuffle = true, .sampler = sampler}, "exclude");
  says({.batch_size = 2, .batch_sampler = std::make_shared<BatchSampler>(sampler, 2)}, "excludes");
  EXPECT_TRUE(contains(error_of([] { DataLoader(Numbers(0)); }), "the data set is empty"));
  EXPECT_TRUE(contains(error_of([] { DataLoader(std::shared_ptr<Numbers>()); }), "null"));
  EXPECT_TRUE(contains(
      error_of([] { DataLoader(std::make_shared<Counting>(1), {.shuffle = true}); }), "iterable"));
  DataLoader stream(std::make_shared<Counting>(1));
  EXPECT_TRUE(contains(error_of([&] { static_cast<void>(stream.size()); }), "not known"));
  DataLoader wrong(Numbers(3), {.sampler = std::make_shared<SequentialSampler>(4)});
  for (int i = 0; i < 3; ++i) wrong.next();
  EXPECT_TRUE(contains(error_of([&] { wrong.next(); }), "gave index 3, but the data set has 3"));
}

TEST(DataLoader, ABatchSamplerOfTheUsers) {
  struct Pairs final : BatchSampler {
    BatchPlan plan(int64_t epoch, Generator&) const override {
      check(epoch < 1, "no plan for epoch ", epoch);
      BatchPlan result;
      result.push_back(Indices{2, 0});
      result.push_back(Indices{1});
      return result;
    }
    int64_t size() const override { return 2; }
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(Numbers(3),
                      {.batch_sampler = std::make_shared<Pairs>(), .num_workers = workers});
    EXPECT_EQ(epoch_of(loader), (std::vector<Values>{{2, 0}, {1}}));
    EXPECT_TRUE(contains(error_of([&] { loader.next(); }), "no plan for epoch 1"));
    EXPECT_EQ(loader.epoch(), 2);
  }
}

TEST(DataLoader, ManyLoadersAtOnce) {
  const auto data = std::make_shared<Numbers>(40);
  std::atomic<int> seen{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      DataLoader loader(data, {.batch_size = 3, .shuffle = true, .num_workers = 2});
      for (int epoch = 0; epoch < 3; ++epoch)
        for (auto& batch : loader) seen += static_cast<int>(batch[0].numel());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 360);
}

}  // namespace
}  // namespace tensora::testing
