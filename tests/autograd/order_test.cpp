// The order of backward: what a leaf with hooks may rely on.
#include <random>
#include <thread>

#include "tensora/autograd/checkpoint.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

// A random graph whose nodes and leaves write down when their gradient is complete.
class RandomGraph {
 public:
  struct Entry {
    bool is_leaf;
    size_t index;
  };

  explicit RandomGraph(unsigned seed, size_t leaf_count, int op_count) : random_(seed) {
    users_.resize(leaf_count);
    for (size_t i = 0; i < leaf_count; ++i) {
      leaves_.push_back(leaf({0.1 * static_cast<double>(i + 1), 0.3}));
      leaves_[i].register_post_accumulate_grad_hook([this, i](const Tensor&) {
        log_.push_back({true, i});
      });
    }
    results_.push_back(zeros({2}, {.dtype = kFloat64}) + leaves_[0]);
    users_[0].push_back(0);
    note(0);
    for (int i = 0; i < op_count; ++i) add_op();
  }

  /// Backward through the sum of some results.
  std::vector<Entry> run(bool retain) {
    log_.clear();
    Tensor total = results_.back().sum();
    for (size_t i = 0; i < results_.size(); i += 3) total = total + results_[i].sum();
    total.backward({}, retain);
    return log_;
  }
  bool uses(size_t node, size_t leaf) const {
    const std::vector<size_t>& users = users_[leaf];
    return std::find(users.begin(), users.end(), node) != users.end();
  }
  const std::vector<Tensor>& leaves() const { return leaves_; }

 private:
  size_t pick(size_t count) { return random_() % count; }

  void note(size_t node) {
    results_[node].register_hook([this, node](const Tensor&) {
      log_.push_back({false, node});
      return Tensor();
    });
  }

  void add_op() {
    const Tensor x = results_[results_.size() - 1 - pick(std::min<size_t>(results_.size(), 4))];
    const size_t chosen = pick(leaves_.size());
    const Tensor w = leaves_[chosen];
    const size_t node = results_.size();
    switch (pick(5)) {
      case 0:
        results_.push_back(x * w);
        users_[chosen].push_back(node);
        break;
      case 1:
        results_.push_back(x + w);
        users_[chosen].push_back(node);
        break;
      case 2:
        results_.push_back(checkpoint([w](const Tensor& in) { return tanh(in) * w; }, x));
        users_[chosen].push_back(node);
        break;
      case 3: {
        const auto inner = [w](const Tensor& in) { return in * w + w; };
        results_.push_back(
            checkpoint([inner](const Tensor& in) { return checkpoint(inner, sin(in)) * 0.5; }, x));
        users_[chosen].push_back(node);
        break;
      }
      default:
        results_.push_back(sin(x) * results_[pick(results_.size())]);
    }
    note(node);
  }

  std::mt19937 random_;
  std::vector<Tensor> leaves_, results_;
  std::vector<std::vector<size_t>> users_;
  std::vector<Entry> log_;
};

TEST(OrderOfBackward, ALeafComesRightBehindTheLastOfItsUsers) {
  size_t early = 0, late = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomGraph graph(seed, 6, 30);
    for (const bool retain : {true, false}) {  // a graph is used twice
      const std::vector<RandomGraph::Entry> log = graph.run(retain);
      std::vector<int> calls(6, 0);
      size_t last_node = 0;
      for (size_t at = 0; at < log.size(); ++at) {
        if (!log[at].is_leaf) {
          last_node = log[at].index;
          continue;
        }
        const size_t leaf = log[at].index;
        EXPECT_EQ(++calls[leaf], 1) << "seed " << seed;
        EXPECT_TRUE(graph.uses(last_node, leaf)) << "seed " << seed << ", leaf " << leaf;
        // Whoever feeds it has run, so nobody else does afterwards; others may be left.
        bool more = false;
        for (size_t next = at; next < log.size(); ++next) {
          if (log[next].is_leaf) continue;
          more = true;
          EXPECT_FALSE(graph.uses(log[next].index, leaf)) << "seed " << seed;
        }
        ++(more ? early : late);
      }
    }
  }
  EXPECT_GT(early, late);  // most leaves are done while nodes still wait
}

TEST(OrderOfBackward, HooksDoNotChangeGradients) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    RandomGraph graph(seed, 4, 20);
    graph.run(true);
    std::vector<Values> first;
    for (const Tensor& leaf : graph.leaves()) {
      first.push_back(values(leaf.grad()));
      leaf.set_grad({});
    }
    // Several graphs share the leaves.
    RandomGraph other(seed, 4, 20);
    other.run(false);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(values(other.leaves()[i].grad()), first[i]) << "seed " << seed;
  }
}

// A transposed or cast weight is made early or late; its backward must not be put off to the end.
TEST(OrderOfBackward, BehindAViewOfTheLeafToo) {
  const Tensor first = leaf({1, 2, 3, 4}), second = leaf({4, 3, 2, 1}), x = constant({1, 2});
  std::vector<int> log;
  first.register_post_accumulate_grad_hook([&](const Tensor&) { log.push_back(1); });
  second.register_post_accumulate_grad_hook([&](const Tensor&) { log.push_back(2); });
  const Tensor hidden = mv(first.view({2, 2}).t(), x) * 2;
  hidden.register_hook([&](const Tensor&) {
    log.push_back(0);
    return Tensor();
  });
  mv(second.view({2, 2}).t(), hidden * 3).sum().backward();
  EXPECT_EQ(log, (std::vector<int>{2, 0, 1}));
}

TEST(OrderOfBackward, GraphsMadeBySeveralThreads) {
  const Tensor x = leaf({1.5}), w = leaf({2});
  int calls = 0;
  w.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
    ++calls;
    EXPECT_DOUBLE_EQ(values(leaf.grad())[0], 1.5 * 3 * 4 * 2);  // d(x² w² 3)/dw · 2
  });
  Tensor y = x * w;
  const auto elsewhere = [&](auto body) { std::thread(body).join(); };
  elsewhere([&] { y = y * 3; });  // a thread that has made no nodes yet
  elsewhere([&] {
    for (int i = 0; i < 50; ++i) (void)(x * 1);
    y = y * w;
  });
  y = y * 1 + y;
  y.backward();
  EXPECT_EQ(calls, 1);
  EXPECT_DOUBLE_EQ(values(x.grad())[0], 4 * 3 * 2);
}

TEST(OrderOfBackward, AHookAddedMeanwhileSeesTheRest) {
  const Tensor x = leaf({1}), w = leaf({2});
  int calls = 0;
  const Tensor y = x * w;
  const Tensor z = y * w;
  y.register_hook([&](const Tensor&) {
    w.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
    return Tensor();
  });
  z.backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(w.grad()), (Values{4}));
}

// Writes down what happens in backward.
class Log {
 public:
  void note_gradient_of(const Tensor& tensor, const std::string& name) {
    tensor.register_hook([this, name](const Tensor&) {
      entries_.push_back(name);
      return Tensor();
    });
  }
  void note_leaf(const Tensor& leaf, const std::string& name) {
    leaf.register_post_accumulate_grad_hook(
        [this, name](const Tensor&) { entries_.push_back(name); });
  }
  std::vector<std::string> take() { return std::exchange(entries_, {}); }

 private:
  std::vector<std::string> entries_;
};
using Entries = std::vector<std::string>;

// The embedding and the output projection of a language model share their weight: it is complete
// behind its first use, the last in backward. The other weights do not wait for it.
TEST(OrderOfBackward, ATiedWeightWaitsForItsFirstUseOnly) {
  const Tensor tied = leaf({2, 3}), inner = leaf({5, 7});
  Log log;
  log.note_leaf(tied, "tied");
  log.note_leaf(inner, "inner");
  const Tensor embedded = constant({1, 2}) * tied;
  const Tensor hidden = embedded * inner;
  log.note_gradient_of(embedded, "embedded");
  log.note_gradient_of(hidden, "hidden");
  (hidden * tied).sum().backward();
  EXPECT_EQ(log.take(), (Entries{"hidden", "inner", "embedded", "tied"}));
  EXPECT_EQ(values(tied.grad()), (Values{2 * 5 * 2, 2 * 2 * 7 * 3}));
}

TEST(OrderOfBackward, WeightsOfACheckpointAreReadyWithItsBlock) {
  for (const bool nested : {false, true}) {
    const Tensor first = leaf({2}), second = leaf({3}), last = leaf({5});
    Log log;
    log.note_leaf(first, "first");
    log.note_leaf(second, "second");
    log.note_leaf(last, "last");
    const auto inner = [&](const Tensor& in) { return tanh(in * first); };
    const auto outer = [&](const Tensor& in) {
      return (nested ? checkpoint(inner, in) : inner(in)) * second * first;
    };
    const Tensor before = constant({0.5}) * leaf({1});
    const Tensor block = checkpoint(outer, before);
    const Tensor after = block * last;
    log.note_gradient_of(before, "before");
    log.note_gradient_of(block, "block");
    after.backward();
    const Entries entries = log.take();
    ASSERT_EQ(entries.size(), 5u) << nested;
    EXPECT_EQ(entries[0], "last");
    EXPECT_EQ(entries[1], "block");
    EXPECT_EQ(entries[4], "before");
    const double t = std::tanh(1.0);
    EXPECT_NEAR(values(first.grad())[0], 5 * 3 * (t + 2 * 0.5 * (1 - t * t)), 1e-12) << nested;
  }
}

// Writing into a view gives its base a new history, whose node has edges to both.
TEST(OrderOfBackward, WeightsWrittenIntoViews) {
  const Tensor base = leaf({1, 2, 3, 4}), factor = leaf({2, 3}), output = leaf({5, 6, 7, 8});
  Log log;
  log.note_leaf(base, "base");
  log.note_leaf(factor, "factor");
  log.note_leaf(output, "output");
  const Tensor x = base * 1;
  x.view({2, 2})[1].mul_(factor);
  log.note_gradient_of(x, "x");
  (x * output).sum().backward();
  EXPECT_EQ(log.take(), (Entries{"output", "x", "factor", "base"}));
  EXPECT_EQ(values(factor.grad()), (Values{3 * 7, 4 * 8}));
  EXPECT_EQ(values(base.grad()), (Values{5, 6, 7 * 2, 8 * 3}));
}

TEST(OrderOfBackward, GradOfSomeInputsWaitsForUsersThatRun) {
  const Tensor first = leaf({2}), second = leaf({3}), third = leaf({5});
  Log log;
  log.note_gradient_of(first, "first");
  log.note_gradient_of(second, "second");
  const Tensor x = third * first;
  const Tensor y = x * second;
  const Tensor z = y * second * first;
  log.note_gradient_of(x, "x");
  log.note_gradient_of(y, "y");
  const auto gradient = [&](const Tensor& of) { return values(grad(z, {of}, {true})[0]); };
  EXPECT_EQ(gradient(second), (Values{2 * 3 * 2 * 2 * 5}));
  EXPECT_EQ(log.take(), (Entries{"y", "second"}));  // nothing below is of use
  EXPECT_EQ(gradient(first), (Values{2 * 2 * 9 * 5}));
  EXPECT_EQ(log.take(), (Entries{"y", "x", "first"}));
  for (const Tensor& leaf : {first, second, third}) EXPECT_FALSE(leaf.grad().defined());
}

// Micro-batches that are accumulated by one process, and summed over processes by hooks, are to
// give the same bits.
TEST(OrderOfBackward, DeterministicSumsOfPartsDoNotDependOnHooks) {
  const DeterministicScope mode(true);
  const auto gradient_of = [&](bool hooked) {
    const Tensor w = full({1}, 0.1F).requires_grad_();
    std::function<void()> remove;
    if (hooked) remove = w.register_post_accumulate_grad_hook([](const Tensor&) {});
    for (const float x : {1e8F, 3.0F, 7.0F, -1e8F})
      (w * x + w * (x * 0.7F) + w * 5).sum().backward();
    return w.grad().item<float>();
  };
  EXPECT_EQ(gradient_of(false), gradient_of(true));
  const Tensor w = full({1}, 0.1F).requires_grad_();
  w.set_grad(full({1}, 1e8F));
  (w * 3 + w * 5).sum().backward();  // (1e8 + 3) + 5 would be 1e8 in float32
  EXPECT_EQ(w.grad().item<float>(), 1e8F + 8.0F);
}

}  // namespace
}  // namespace tensora::testing
