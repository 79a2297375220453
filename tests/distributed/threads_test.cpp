#include "tensora/distributed/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "tensora/distributed/control.h"
#include "tensora/distributed/fake.h"
#include "tensora/distributed/lane.h"
#include "tensora/tensora.h"

namespace tensora::distributed {
namespace {

View view(const Tensor& tensor) { return tensor.view_of_data(); }

/// Values of rank `rank` whose sum depends on the order of its terms.
Tensor values_of(int rank, int64_t n, DType dtype) {
  const Tensor index = arange(n, {.dtype = kFloat64});
  return (sin(index * (rank + 1.7)) * (rank % 2 ? 1e4 : 1.0) + rank).to(dtype);
}

/// What the order of ranks gives, computed by plain ops.
Tensor expected_sum(int ranks, int64_t n, DType dtype) {
  const bool narrow = dtype == kFloat16 || dtype == kBFloat16;
  const DType sums = narrow ? kFloat32 : dtype;
  Tensor total = values_of(0, n, dtype).to(sums);
  for (int r = 1; r < ranks; ++r) total = total + values_of(r, n, dtype).to(sums);
  return total.to(dtype);
}

class Threads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Threads, ::testing::Range(1, 6));

TEST_P(Threads, AllReduceAddsInTheOrderOfRanks) {
  const int ranks = GetParam();
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt32})
    for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{200'001}}) {
      const Tensor expected = expected_sum(ranks, n, dtype);
      run_ranks(ranks, [&](ProcessGroup& world) {
        Tensor x = values_of(world.rank(), n, dtype);
        world.all_reduce(view(x))->wait();
        EXPECT_TRUE(equal(x, expected)) << name(dtype) << " " << n;
      });
    }
}

TEST_P(Threads, PiecesOfAnyLengthGiveTheSameBits) {
  const int ranks = GetParam();
  const Tensor expected = expected_sum(ranks, 1000, kFloat32);
  for (int64_t piece : {1, 7, 333, 1000})
    run_ranks(ranks, [&](ProcessGroup& world) {
      Tensor x = values_of(world.rank(), 1000, kFloat32);
      std::vector<WorkPtr> works;
      for (int64_t at = 0; at < 1000; at += piece)
        works.push_back(
            world.all_reduce(view(x.slice(0, at, std::min<int64_t>(1000, at + piece)))));
      for (const WorkPtr& work : works) work->wait();
      EXPECT_TRUE(equal(x, expected)) << piece;
    });
}

TEST_P(Threads, OtherReductions) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](ProcessGroup& world) {
    const auto reduced = [&](ReduceOp op, double value, DType dtype) {
      Tensor x = full({3}, value, {.dtype = dtype});
      world.all_reduce(view(x), op)->wait();
      return x[2].item<double>();
    };
    double product = 1;
    for (int r = 0; r < ranks; ++r) product *= r + 1;
    EXPECT_EQ(reduced(ReduceOp::product, world.rank() + 1, kFloat64), product);
    EXPECT_EQ(reduced(ReduceOp::minimum, 10 - world.rank(), kInt64), 10 - (ranks - 1));
    EXPECT_EQ(reduced(ReduceOp::maximum, world.rank(), kBFloat16), ranks - 1);
    EXPECT_DOUBLE_EQ(reduced(ReduceOp::average, 2.0 * world.rank(), kFloat64), ranks - 1);
    Tensor flag = full({1}, world.rank() == ranks - 1, {.dtype = kBool});
    world.all_reduce(view(flag))->wait();
    EXPECT_TRUE(flag.item<bool>());
  });
}

TEST_P(Threads, ReduceScatterGatherAndExchange) {
  const int ranks = GetParam();
  const int64_t n = 1001;
  run_ranks(ranks, [&](ProcessGroup& world) {
    const int rank = world.rank();
    const Tensor whole = values_of(rank, n * ranks, kFloat32);
    Tensor part = empty({n});
    world.reduce_scatter(view(part), view(whole))->wait();
    EXPECT_TRUE(
        equal(part, expected_sum(ranks, n * ranks, kFloat32).slice(0, n * rank, n * (rank + 1))));

    Tensor all = empty({n * ranks});
    world.all_gather(view(all), view(part))->wait();
    EXPECT_TRUE(equal(all, expected_sum(ranks, n * ranks, kFloat32)));

    Tensor exchanged = empty({n * ranks});
    world.all_to_all(view(exchanged), view(whole))->wait();
    for (int r = 0; r < ranks; ++r)
      EXPECT_TRUE(equal(exchanged.slice(0, n * r, n * (r + 1)),
                        values_of(r, n * ranks, kFloat32).slice(0, n * rank, n * (rank + 1))));
  });
}

TEST_P(Threads, ExchangeWithCounts) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](ProcessGroup& world) {
    const int rank = world.rank();
    // Rank s sends (s + r) % 3 elements to rank r, all with the value 10 * s + r.
    std::vector<int64_t> out_counts, in_counts;
    std::vector<float> values;
    for (int r = 0; r < ranks; ++r) {
      in_counts.push_back((rank + r) % 3);
      out_counts.push_back((r + rank) % 3);
      values.insert(values.end(), static_cast<size_t>(in_counts.back()),
                    static_cast<float>(10 * rank + r));
    }
    const Tensor in = tensor(values, {.dtype = kFloat32});
    int64_t total = 0;
    for (int64_t count : out_counts) total += count;
    Tensor out = empty({total});
    const WorkPtr work = world.all_to_all(view(out), out_counts, view(in), in_counts);
    in_counts.assign(in_counts.size(), 77);  // the group has its own
    work->wait();
    int64_t at = 0;
    for (int r = 0; r < ranks; ++r)
      for (int64_t i = 0; i < out_counts[static_cast<size_t>(r)]; ++i)
        EXPECT_EQ(out[at++].item<float>(), 10 * r + rank);
  });
}

TEST_P(Threads, BroadcastReduceSendAndBarrier) {
  const int ranks = GetParam();
  run_ranks(ranks, [&](ProcessGroup& world) {
    const int rank = world.rank(), last = ranks - 1;
    Tensor x = full({5}, rank);
    world.broadcast(view(x), last)->wait();
    EXPECT_EQ(x[4].item<int>(), last);
    Tensor y = full({5}, rank);
    world.reduce(view(y), last)->wait();
    if (rank == last) {
      EXPECT_EQ(y[0].item<int>(), ranks * (ranks - 1) / 2);
    }
    world.barrier();
    if (ranks == 1) return;
    // Both neighbours send first: nobody has to be receiving for that.
    Tensor mine = full({4}, rank * 1.0), theirs = empty({4});
    const WorkPtr sent = world.send(view(mine), (rank + 1) % ranks);
    world.recv(view(theirs), (rank + last) % ranks)->wait();
    sent->wait();
    EXPECT_EQ(theirs[3].item<int>(), (rank + last) % ranks);
  });
}

// A large call is divided among the ranks. None of them may depend on what another one does later.
TEST(Groups, ARankThatWaitsDoesWhatIsLeftOfALargeCall) {
  std::atomic<bool> seen = false;
  std::atomic<int> came = 0;
  run_ranks(3, [&](ProcessGroup& world) {
    const bool last = world.rank() == 2;
    const Tensor x = full({1 << 20}, world.rank() + 1.0);
    const WorkPtr work = world.all_reduce(view(x));
    if (world.rank() == 0)
      seen = (work->wait(), true);
    else
      while (!seen) std::this_thread::yield();  // neither calls nor waits
    EXPECT_TRUE(work->done() && equal(x, full({1 << 20}, 6.0)));
    const Tensor y = full({1 << 20}, world.rank() + 2.0);
    while (last && came < 2) std::this_thread::yield();
    const WorkPtr kept = last ? nullptr : world.all_reduce(view(y));
    ++came;
    if (last) world.all_reduce(view(y));  // and drops the handle: the memory may go
    EXPECT_TRUE(!last || equal(y, full({1 << 20}, 9.0)));
    world.barrier();
    if (!last) kept->wait();
    EXPECT_TRUE(equal(y, full({1 << 20}, 9.0)));
  });
}

TEST(Groups, SplitByColourAndKey) {
  run_ranks(4, [&](ProcessGroup& world) {
    const auto row = world.split(world.rank() / 2, 0, "tp");
    const auto column = world.split(world.rank() % 2, -world.rank(), "dp");
    EXPECT_EQ(row->size(), 2);
    EXPECT_EQ(row->rank(), world.rank() % 2);
    EXPECT_EQ(column->rank(), 1 - world.rank() / 2);  // by falling rank
    Tensor x = full({1}, world.rank());
    find_group("tp")->all_reduce(view(x))->wait();
    EXPECT_EQ(x.item<int>(), world.rank() < 2 ? 1 : 5);
    find_group("dp")->all_reduce(view(x))->wait();
    EXPECT_EQ(x.item<int>(), 6);
    EXPECT_EQ(world.split(world.rank() == 0 ? -1 : 0) == nullptr, world.rank() == 0);
    EXPECT_THROW(find_group("pp"), Error);
  });
}

TEST(Groups, EveryRankHasItsOwnGeneratorAndModes) {
  manual_seed(7);
  const Tensor expected = rand({4});
  manual_seed(7);
  const no_grad off;
  run_ranks(3, [&](ProcessGroup& world) {
    EXPECT_FALSE(thread_state.grad_enabled);
    EXPECT_TRUE(equal(rand({4}), expected));
    manual_seed(static_cast<uint64_t>(world.rank()));
    const Tensor mine = rand({1});
    Tensor all = empty({3});
    world.all_gather(view(all), view(mine))->wait();
    EXPECT_NE(all[0].item<float>(), all[1].item<float>());
    EXPECT_EQ(tensora::world()->size(), 3);
  });
  EXPECT_TRUE(equal(rand({4}), expected));  // the caller's generator did not move
  EXPECT_EQ(world()->size(), 1);
}

/// The messages of all ranks' exceptions.
std::vector<std::string> errors_of(int ranks, const std::function<void(ProcessGroup&)>& body,
                                   const GroupOptions& options = {}) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  try {
    run_ranks(
        ranks,
        [&](ProcessGroup& world) {
          try {
            body(world);
          } catch (const std::exception& error) {
            errors[static_cast<size_t>(world.rank())] = error.what();
            throw;
          }
        },
        options);
  } catch (const std::exception&) {
  }
  return errors;
}

void expect_on_all(const std::vector<std::string>& errors,
                   std::initializer_list<const char*> parts) {
  for (const std::string& error : errors)
    for (const char* part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(Faults, DifferentCallsAreNamedOnAllRanks) {
  const auto differing = [](const std::function<void(ProcessGroup&, const Tensor&)>& zero,
                            const std::function<void(ProcessGroup&, const Tensor&)>& others) {
    return errors_of(3, [&](ProcessGroup& world) {
      const Tensor x = ones({8});
      (world.rank() == 0 ? zero : others)(world, x);
      world.barrier();
    });
  };
  const auto sum = [](ProcessGroup& g, const Tensor& x) { g.all_reduce(view(x))->wait(); };
  expect_on_all(
      differing([](ProcessGroup& g, const Tensor& x) { g.broadcast(view(x), 1)->wait(); }, sum),
      {"broadcast(float32, 8 elements, root 1)", "all_reduce(sum, float32, 8 elements)",
       "threads_test.cpp"});
  expect_on_all(differing([](ProcessGroup& g,
                             const Tensor& x) { g.all_reduce(view(x.slice(0, 0, 7)))->wait(); },
                          sum),
                {"7 elements", "8 elements"});
  expect_on_all(
      differing([](ProcessGroup& g,
                   const Tensor&) { g.all_reduce(view(ones({8}, {.dtype = kInt32})))->wait(); },
                sum),
      {"int32", "float32"});
  expect_on_all(differing([](ProcessGroup& g,
                             const Tensor& x) { g.all_reduce(view(x), ReduceOp::maximum)->wait(); },
                          sum),
                {"maximum", "sum"});
}

TEST(Faults, DifferentOrderOfSizes) {
  expect_on_all(errors_of(3,
                          [&](ProcessGroup& world) {
                            const Tensor a = ones({3}), b = ones({4});
                            const WorkPtr first = world.all_reduce(view(world.rank() ? a : b));
                            const WorkPtr second = world.all_reduce(view(world.rank() ? b : a));
                            first->wait();
                            second->wait();
                          }),
                {"3 elements", "4 elements", "rank 0"});
}

TEST(Faults, ARankThatThrowsEndsTheOthers) {
  const auto start = std::chrono::steady_clock::now();
  const auto errors = errors_of(3, [](ProcessGroup& world) {
    if (world.rank() == 1) fail("out of luck");
    world.barrier();
  });
  EXPECT_EQ(errors[1], "out of luck");
  EXPECT_EQ(errors[0], "rank 1 failed: out of luck");
  EXPECT_EQ(errors[2], errors[0]);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_THROW(run_ranks(2,
                         [](ProcessGroup& world) {
                           if (world.rank() == 1) throw std::out_of_range("cause");
                           world.barrier();
                         }),
               std::out_of_range);
}

TEST(Faults, ARankThatReturnsIsMissed) {
  expect_on_all({errors_of(2,
                           [](ProcessGroup& world) {
                             if (world.rank() == 0) world.barrier();
                           })[0]},
                {"rank 1 returned and will not come to barrier()"});
}

TEST(Faults, ASlowRankIsNamedThenTheLimitPasses) {
  std::atomic<bool> over = false;
  ::testing::internal::CaptureStderr();
  const auto errors = errors_of(3,
                                [&](ProcessGroup& world) {
                                  if (world.rank() == 2) {
                                    while (!over)
                                      std::this_thread::sleep_for(std::chrono::milliseconds(5));
                                    world.barrier();
                                  }
                                  try {
                                    world.barrier();
                                  } catch (const GroupTimeoutError&) {
                                    over = true;
                                    throw;
                                  }
                                },
                                {.limit = 0.3, .warn_after = 0.1});
  const std::string warned = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warned.find("has waited 0.1 s in group world for rank 2 to come to barrier()"),
            std::string::npos)
      << warned;
  expect_on_all(errors, {"rank 2 did not come within 0.3 s to barrier()"});
}

TEST(Faults, WaitForGivesUpEarly) {
  run_ranks(2, [](ProcessGroup& world) {
    Tensor x = ones({1});
    if (world.rank() == 0) {
      const WorkPtr work = world.all_reduce(view(x));
      EXPECT_FALSE(work->done());
      EXPECT_FALSE(work->wait_for(0.01));
      world.send(view(ones({1})), 1);
      EXPECT_TRUE(work->wait_for(30));
      EXPECT_TRUE(work->done());
    } else {
      Tensor go = empty({1});
      world.recv(view(go), 0)->wait();
      world.all_reduce(view(x))->wait();
    }
    EXPECT_EQ(x.item<float>(), 2);
  });
}

TEST(Faults, AbortReachesEverySplit) {
  const auto errors = errors_of(2, [](ProcessGroup& world) {
    const auto part = world.split(0, 0, "part");
    if (world.rank() == 0) return world.abort_group("stopped by hand");
    part->barrier();
  });
  EXPECT_EQ(errors[1], "stopped by hand");
}

TEST(Faults, AFailureOfAPartReachesTheWorld) {
  const auto errors = errors_of(3, [](ProcessGroup& world) {
    const auto part = world.split(world.rank() / 2, 0, "part");  // ranks 0 and 1, and rank 2
    Tensor x = ones({4 + world.rank()});
    if (world.rank() < 2) {
      EXPECT_THROW(part->all_reduce(view(x))->wait(), RankMismatchError);
    }
    world.barrier();
  });
  expect_on_all(errors,
                {"group part: the ranks called different things", "4 elements", "5 elements"});
}

/// Is inside of its call until `leave`, whatever happens meanwhile.
class SlowTransport final : public Transport {
 public:
  void run(const Collective&) override {
    inside = true;
    while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    inside = false;
  }
  std::string describe() const override { return "a slow one"; }
  std::atomic<bool> inside = false, leave = false;
};

TEST(Faults, ACallThatFailsIsOverWhenItsMemoryIsFree) {
  const auto failure = std::make_shared<Failure>();
  const auto watch = std::make_shared<Watch>("pair", std::vector{0, 1}, 0, failure);
  auto owned = std::make_unique<SlowTransport>();
  SlowTransport& transport = *owned;
  Lane lane(std::move(owned), "pair", watch, std::make_shared<Recorder>());
  Tensor x = ones({1});
  Collective call;
  call.in = call.out = view(x);
  const auto queued = lane.start(call);
  while (!transport.inside) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  failure->set(std::make_exception_ptr(GroupError("over")));
  const bool is_done = lane.is_done(*queued);
  transport.leave = true;
  try {
    lane.wait(*queued, -1);
  } catch (const GroupError&) {
  }
  if (failure->happened_before(std::chrono::seconds(1))) return;  // for a hung call it gives up
  EXPECT_TRUE(!is_done && queued->done && !transport.inside);
}

// It may have come to the call before it left, after the caller asked who is missing.
TEST(Faults, ARankThatLeavesIsMissedAtTheSecondLook) {
  Watch watch("pair", {4, 5}, 0, std::make_shared<Failure>());
  bool left = true;
  watch.has_left = [&](int rank) { return left && rank == 5; };
  watch.begin({});
  watch.look({1});
  watch.begin({});
  watch.look({1});
  EXPECT_THROW(watch.look({1}), RankFailedError);
}

TEST(Faults, ARankThatJoinsLateLearnsOfTheFailure) {
  const auto failures = std::array{std::make_shared<Failure>(), std::make_shared<Failure>(),
                                   std::make_shared<Failure>()};
  Socket listener = Socket::listen("127.0.0.1", 0);
  const MeetingPoint place{"127.0.0.1", listener.port(), "token"};
  const auto join = [&](int rank, Socket socket = {}) {
    return std::make_unique<Control>(place, rank, 3, failures[static_cast<size_t>(rank)],
                                     std::make_shared<Recorder>(), 60, std::move(socket));
  };
  const auto first = join(0, std::move(listener)), second = join(1);
  second->tell_failure(std::make_exception_ptr(RankFailedError(1, "rank 1 is gone")));
  EXPECT_THROW(first->get("nothing", 60), RankFailedError);
  const auto third = join(2);
  EXPECT_THROW(third->get("nothing", 60), RankFailedError);
}

// The receiver, which sleeps, does what the sender leaves of a divided message.
TEST(Faults, ALargeMessageNeedsNoFurtherCallOfItsSender) {
  std::atomic<bool> came = false;
  run_ranks(2,
            [&](ProcessGroup& world) {
              Tensor x = full({1 << 20}, 5.0 * world.rank());
              if (world.rank() == 1) {
                const WorkPtr received = world.recv(view(x), 0);
                try {
                  received->wait();
                } catch (...) {
                  came = true;
                  throw;
                }
                came = true;
              } else {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                const WorkPtr sent = world.send(view(x), 1);
                while (!came) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
              EXPECT_EQ(x[(1 << 20) - 1].item<double>(), 0);
            },
            {.limit = 10});
}

TEST(Faults, ArgumentsAreChecked) {
  const auto one = make_group_of_one();
  const Tensor x = ones({2, 3});
  EXPECT_THROW(one->all_reduce(view(x.t())), Error);
  EXPECT_THROW(one->broadcast(view(x), 1), Error);
  EXPECT_THROW(one->all_reduce(view(ones({2}, {.dtype = kInt32})), ReduceOp::average), Error);
  EXPECT_THROW(one->all_gather(view(empty({7})), view(x)), Error);
  EXPECT_THROW(one->send(view(x), 0), Error);
  EXPECT_THROW(run_ranks(0, [](ProcessGroup&) {}), Error);
}

TEST(Fake, LogsCallsOfAnyWorld) {
  const auto world = make_fake_world(5, 4096);
  const Tensor big = empty({1 << 20, 1 << 14}, {.dtype = kBFloat16, .device = "meta"});
  world->all_reduce(view(big))->wait();
  world->part("tp", {4, 5, 6, 7})->broadcast(view(big), 2)->wait();
  ASSERT_EQ(world->log().size(), 2u);
  EXPECT_EQ(world->log()[0].count, int64_t{1} << 34);
  EXPECT_EQ(world->log()[1].group, "tp");
  EXPECT_EQ(world->log()[1].ranks, 4);
  // With real memory the others are taken to have the same values.
  const auto three = make_fake_world(1, 3);
  Tensor x = ones({2});
  three->all_reduce(view(x))->wait();
  EXPECT_TRUE(equal(x, full({2}, 3.0)));
  Tensor part = empty({1});
  three->reduce_scatter(view(part), view(arange(3.0)))->wait();
  EXPECT_EQ(part.item<float>(), 3);
}

}  // namespace
}  // namespace tensora::distributed
