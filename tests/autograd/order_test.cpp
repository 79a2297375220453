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

}  // namespace
}  // namespace tensora::testing
