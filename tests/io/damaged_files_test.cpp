// Thousands of files that are nearly right. Reading one gives a value or an Error: it neither
// crashes nor takes much memory.

#include <sys/resource.h>

#include <random>

#include "files.h"

namespace tensora::testing {
namespace {

int64_t touch(const Value& value) {
  int64_t sum = 0;
  if (value.is_tensor() && value.to_tensor().numel() < 100000)
    sum += value.to_tensor().contiguous().numel();
  if (value.is_list())
    for (const Value& item : value.to_list()) sum += touch(item);
  if (value.is_dict())
    for (const auto& [key, item] : value.to_dict()) sum += touch(item);
  return sum;
}

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class DamagedFile : public ::testing::TestWithParam<const char*> {
 protected:
  // True if it was read, false if it was refused; anything else ends the test.
  bool reads(const std::string& contents, bool verify) {
    write_file(folder_ / "x", contents);
    try {
      touch(io::load(folder_ / "x", {.verify = verify}));
      return true;
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what();
    } catch (const Error& error) {
      EXPECT_TRUE(contains(error.what(), "/x'")) << error.what();
    }
    return false;
  }

  std::string original_ = read_file(golden(GetParam()));
  TemporaryFolder folder_;
  std::mt19937 random_{7};
};

TEST_P(DamagedFile, cut_off_anywhere) {
  const size_t step = std::max<size_t>(1, original_.size() / 200);
  for (size_t size = 0; size < original_.size(); size += step)
    EXPECT_FALSE(reads(original_.substr(0, size), true)) << size;
  EXPECT_TRUE(reads(original_, true));
}

TEST_P(DamagedFile, changed_anywhere) {
  const int64_t before = peak_kilobytes();
  for (int i = 0; i < 800; ++i) {
    std::string contents = original_;
    const int changes = 1 + static_cast<int>(random_() % 4);
    for (int k = 0; k < changes; ++k) {
      // Half of them in the first and the last kilobyte, where the structure is.
      size_t position = random_() % contents.size();
      const size_t edge = std::min<size_t>(contents.size(), 1024);
      if (i % 4 == 1) position = random_() % edge;
      if (i % 4 == 3) position = contents.size() - 1 - random_() % edge;
      const char extreme[] = {'\0', '\x7f', '\x80', '\xff'};
      contents[position] = random_() % 2 ? extreme[random_() % 4] : static_cast<char>(random_());
    }
    reads(contents, i % 8 == 0);
  }
  EXPECT_LT(peak_kilobytes() - before, 200000);
}

TEST_P(DamagedFile, with_hostile_sizes) {
  const int64_t before = peak_kilobytes();
  const uint64_t sizes[] = {0, 1, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
  for (int i = 0; i < 400; ++i) {
    std::string contents = original_;
    const size_t width = size_t{1} << (1 + random_() % 3);
    if (contents.size() < width) continue;
    std::memcpy(&contents[random_() % (contents.size() - width + 1)], &sizes[random_() % 7], width);
    reads(contents, false);
  }
  EXPECT_LT(peak_kilobytes() - before, 200000);
}

TEST_P(DamagedFile, with_parts_moved) {
  for (int i = 0; i < 300; ++i) {
    std::string contents = original_;
    const size_t from = random_() % contents.size(), to = random_() % contents.size();
    const std::string part = contents.substr(from, random_() % 64);
    if (i % 2)
      contents.insert(to, part);
    else
      contents.erase(to, part.size());
    reads(contents, false);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DamagedFile,
                         ::testing::Values("everything.pt", "protocol5.pt", "mixed.safetensors",
                                           "fortran.npy", "stored.npz", "deflated.npz",
                                           "zip64.npz"));

}  // namespace
}  // namespace tensora::testing
