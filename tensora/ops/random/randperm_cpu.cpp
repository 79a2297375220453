#include <algorithm>
#include <bit>
#include <cstring>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/random/random_tile.h"
#include "tensora/ops/random/sample.h"

// Note [Shuffling by sorting]
// A permutation is the order of n random 64-bit words, in each of which the number of the element
// takes the place of the lowest bits: it names the element and settles ties, which are too few to
// matter. Unlike swapping elements one after another this runs in parallel and gives the same
// permutation on every device. The leading bits are uniform, so distributing the words into buckets
// by them, and each bucket by the next bits, leaves almost nothing to sort. Buckets of the first
// kind are made to fit into the nearest cache. They are filled by several threads, each of which
// has room of its own in every bucket; the order in which words come to lie there does not matter.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int kMostBucketBits = 11, kWordsPerBucketBits = 11;
constexpr int64_t kLeastChunk = 128 * kGenerateTile, kMostChunks = 16;
constexpr int64_t kFewWords = 24, kSmallBucket = 8192;  // of a small one a count has 16 bits

void insertion_sort(uint64_t* words, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t word = words[i];
    int64_t k = i;
    for (; k > 0 && words[k - 1] > word; --k) words[k] = words[k - 1];
    words[k] = word;
  }
}

// Distributes n words into 2^bits parts of `to` by the bits below `top`; starts[p] is where part p
// begins, and starts[p + 1] where it ends.
template <class Count>
void deal(const uint64_t* words, uint64_t* to, int64_t n, int top, int bits, Count* starts) {
  const auto part = [=](uint64_t word) { return word >> (top - bits) & ((1u << bits) - 1); };
  const size_t parts = size_t{1} << bits;
  std::fill_n(starts, parts + 2, Count{0});
  Count* const next = starts + 1;  // where the next word of a part goes; in the end, where it ends
  for (int64_t i = 0; i < n; ++i) ++next[part(words[i]) + 1];
  for (size_t p = 1; p < parts; ++p) next[p] = static_cast<Count>(next[p] + next[p - 1]);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = next[part(words[i])]++;
    to[place] = words[i];
  }
}

// Sorts n words that agree in the bits from `top` up; the result is in `to`, `words` is
// overwritten.
void sort_words(uint64_t* words, uint64_t* to, int64_t n, int top) {
  const int bits =
      std::min(static_cast<int>(std::bit_width(static_cast<uint64_t>(n))), kMostBucketBits + 2);
  if (n <= kFewWords || bits > top) {
    std::memcpy(to, words, static_cast<size_t>(n) * sizeof(uint64_t));
    return n <= kFewWords ? insertion_sort(to, n) : std::sort(to, to + n);
  }
  if (n < kSmallBucket) {
    uint16_t starts[kSmallBucket + 2];
    deal(words, to, n, top, bits, starts);
    return insertion_sort(to, n);
  }
  const HostScratch<int64_t> starts((int64_t{1} << bits) + 2);
  deal(words, to, n, top, bits, starts.data());
  for (int64_t p = 0; p < int64_t{1} << bits; ++p) {
    const int64_t first = starts.data()[p], count = starts.data()[p + 1] - first;
    sort_words(to + first, words + first, count, top - bits);
  }
  std::memcpy(to, words, static_cast<size_t>(n) * sizeof(uint64_t));
}

class Shuffle {
 public:
  Shuffle(const RandomAttrs& attrs, int64_t n)
      : words_{attrs.seed, attrs.offset, 0, 0},
        n_(n),
        mask_(std::bit_ceil(static_cast<uint64_t>(n)) - 1),
        bits_(std::clamp(static_cast<int>(std::bit_width(mask_)) - kWordsPerBucketBits, 0,
                         kMostBucketBits)),
        chunk_(std::max(kLeastChunk, (n / kMostChunks / kGenerateTile + 1) * kGenerateTile)),
        chunks_((n + chunk_ - 1) / chunk_),
        drawn_(n),
        dealt_(n),
        places_(chunks_ << bits_),
        starts_((int64_t{1} << bits_) + 1) {}

  void run(const View& out) {
    parallel_for(chunks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) draw(chunk);
    });
    find_places();
    parallel_for(chunks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) deal_out(chunk);
    });
    const StoreFn store = store_fn<int64_t>(out.dtype);
    const int64_t step = out.strides[0] * static_cast<int64_t>(element_size(out.dtype));
    parallel_for(buckets(), chunks_ == 1 ? buckets() : 16, [&](int64_t begin, int64_t end) {
      uint64_t near[kSmallBucket];  // stays in the cache from one bucket to the next
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = starts_.data()[b], count = starts_.data()[b + 1] - first;
        uint64_t* const sorted = count < kSmallBucket ? near : drawn_.data() + first;
        sort_words(dealt_.data() + first, sorted, count, 64 - bits_);
        for (int64_t i = 0; i < count; ++i) sorted[i] &= mask_;
        store(sorted, out.as<char>() + first * step, out.strides[0], count);
      }
    });
  }

 private:
  int64_t buckets() const { return int64_t{1} << bits_; }
  uint64_t bucket(uint64_t word) const { return word >> 1 >> (63 - bits_); }
  // How many words of a chunk each bucket has, then where the next of them goes.
  int64_t* places(int64_t chunk) const { return places_.data() + (chunk << bits_); }

  void draw(int64_t chunk) const {
    int64_t* const counts = places(chunk);
    std::fill_n(counts, buckets(), 0);
    const int64_t end = std::min(n_, (chunk + 1) * chunk_);
    for (int64_t start = chunk * chunk_; start < end; start += kGenerateTile) {
      const int64_t count = std::min(kGenerateTile, end - start);
      uint64_t* const drawn = drawn_.data() + start;
      random_tile<RandomInteger, long long>(&words_, start, count, drawn);
      for (int64_t i = 0; i < count; ++i) {
        drawn[i] = (drawn[i] & ~mask_) | static_cast<uint64_t>(start + i);
        ++counts[bucket(drawn[i])];
      }
    }
  }

  void find_places() const {
    int64_t sum = 0;
    for (int64_t b = 0; b < buckets(); ++b) {
      starts_.data()[b] = sum;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const int64_t count = places(chunk)[b];
        places(chunk)[b] = sum;
        sum += count;
      }
    }
    starts_.data()[buckets()] = sum;
  }

  void deal_out(int64_t chunk) const {
    constexpr int64_t kLineWords = 8;
    int64_t* const next = places(chunk);
    const int64_t end = std::min(n_, (chunk + 1) * chunk_);
    for (int64_t i = chunk * chunk_; i < end; ++i) {
      const uint64_t word = drawn_.data()[i];
      uint64_t* const to = dealt_.data() + next[bucket(word)]++;
      __builtin_prefetch(to + kLineWords, 1);  // the processor does not follow so many streams
      *to = word;
    }
  }

  RandomInteger words_;
  int64_t n_;
  uint64_t mask_;  // the bits that give way to the element's number
  int bits_;       // 2^bits buckets
  int64_t chunk_, chunks_;
  HostScratch<uint64_t> drawn_, dealt_;
  HostScratch<int64_t> places_, starts_;
};

void randperm_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  const View& out = context.output();
  if (out.numel > 0) Shuffle(attrs, out.numel).run(out);
}

}  // namespace

void register_randperm_cpu() { randperm_op.set_kernel(DeviceType::cpu, randperm_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
