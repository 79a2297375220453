// Thousands of GGUF files that are nearly right: each is read or refused with a sentence. None
// crashes, takes much memory, or has a tensor outside of the file.

#include <sys/resource.h>

#include <cstring>
#include <random>

#include "../io/files.h"
#include "../real_data.h"
#include "tensora/llm/gguf/gguf_reader.h"
#include "tensora/llm/gguf/gguf_writer.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

std::string small_file() {
  const TemporaryFolder folder;
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("general.alignment", 32);
  metadata.set("llama.block_count", 2);
  metadata.set("llama.rope.freq_base", 10000.0);
  metadata.set("flag", true);
  metadata.set("tokens", std::vector<std::string>{"a", "b", "", "d"});
  metadata.set("scores", std::vector<double>{0, 1, 2, 3});
  metadata.set("types", std::vector<int64_t>{1, 1, 3, 6});
  write_gguf(
      folder / "x", metadata,
      StateDict{{"a", ones({3, 32})}, {"b", quantize(ones({2, 256}), kQ4_K)}, {"c", ones({8})}});
  return read_file(folder / "x");
}

io::ConstBytes bytes_of_text(const std::string& text) { return io::bytes_of_text(text); }

// The error, or nothing where the file was read.
std::string problem_of(const std::string& contents) {
  try {
    const GgufHeader header = parse_gguf(bytes_of_text(contents));
    for (const GgufTensor& tensor : header.tensors) {
      EXPECT_LE(tensor.begin, contents.size());
      EXPECT_LE(tensor.info.bytes, contents.size() - tensor.begin) << tensor.info.name;
    }
    return {};
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
    return error.what();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()), "");
    return error.what();
  }
}

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class DamagedGguf : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) {
      original_ = small_file();
    } else {
      const std::string path = testing::real_data("stories260K.gguf");
      if (path.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
      original_ = read_file(path);
    }
    ASSERT_EQ(problem_of(original_), "");
    header_ = std::min<size_t>(original_.size(), GetParam() ? 14176 : 700);
  }

  // Changes bytes for the time of a reading.
  void with(size_t position, const void* bytes, size_t count) {
    count = std::min(count, original_.size() - position);
    const std::string old = original_.substr(position, count);
    std::memcpy(original_.data() + position, bytes, count);
    problem_of(original_);
    original_.replace(position, count, old);
  }

  std::string original_;
  size_t header_ = 0;
  std::mt19937 random_{11};
};

TEST_P(DamagedGguf, cut_off_anywhere) {
  for (size_t size = 0; size < header_; size += GetParam() ? 37 : 1)
    EXPECT_NE(problem_of(original_.substr(0, size)), "") << size;
  for (int i = 0; i < 50; ++i)
    EXPECT_NE(
        problem_of(original_.substr(0, header_ + random_() % (original_.size() - header_ - 4))),
        "");
}

TEST_P(DamagedGguf, changed_anywhere) {
  const int64_t before = peak_kilobytes();
  for (int i = 0; i < 4000; ++i) {
    const char extreme[] = {'\0', '\1', '\x7f', '\x80', '\xff'};
    const char byte = random_() % 2 ? extreme[random_() % 5] : static_cast<char>(random_());
    with(random_() % header_, &byte, 1);
  }
  EXPECT_LT(peak_kilobytes() - before, 50000);
}

TEST_P(DamagedGguf, with_hostile_sizes) {
  const int64_t before = peak_kilobytes();
  const uint64_t sizes[] = {0,
                            1,
                            31,
                            0x7fffffff,
                            0xffffffff,
                            INT64_MAX,
                            UINT64_MAX,
                            UINT64_MAX - 7,
                            uint64_t{1} << 62,
                            uint64_t{1} << 40};
  for (int i = 0; i < 4000; ++i)
    with(random_() % header_, &sizes[random_() % std::size(sizes)], size_t{1} << random_() % 4);
  EXPECT_LT(peak_kilobytes() - before, 50000);
}

TEST_P(DamagedGguf, with_parts_moved) {
  for (int i = 0; i < 1000; ++i) {
    std::string contents = original_.substr(0, header_);
    const size_t from = random_() % contents.size(), to = random_() % contents.size();
    const std::string part = contents.substr(from, random_() % 64);
    if (i % 2)
      contents.insert(to, part);
    else
      contents.erase(to, part.size());
    problem_of(contents);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, DamagedGguf, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "stories260K" : "small"; });

// ---- What is said of each kind of damage --------------------------------------------------------

// Writes a file by hand.
class Forge {
 public:
  template <class Number>
  Forge& number(Number value) {
    io::append_number(bytes_, value);
    return *this;
  }
  Forge& text(std::string_view value) {
    number(static_cast<uint64_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  Forge& start(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes_ += "GGUF";
    return number(version).number(tensors).number(keys);
  }
  Forge& key(std::string_view name, uint32_t type) { return text(name).number(type); }
  Forge& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).number(static_cast<uint32_t>(dims.size()));
    for (uint64_t dim : dims) number(dim);
    return number(type).number(offset);
  }
  Forge& data(size_t count) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + count);
    return *this;
  }
  std::string problem() const { return problem_of(bytes_); }

 private:
  std::string bytes_;
};

#define EXPECT_SAYS(forge, part) EXPECT_PRED2(contains, (forge).problem(), std::string_view(part))

TEST(BadGguf, is_refused_with_a_sentence) {
  constexpr uint64_t huge = uint64_t{1} << 61;
  EXPECT_SAYS(Forge(), "the file is empty");
  EXPECT_SAYS(Forge().number(0x12345678), "does not begin with \"GGUF\"");
  EXPECT_SAYS(Forge().start(0, 0, 1), "version 1 is not supported");
  EXPECT_SAYS(Forge().start(0, 0, 4), "version 4 is not supported");
  EXPECT_SAYS(Forge().start(0, 0, 0x03000000), "big-endian");
  EXPECT_SAYS(Forge().start(0, huge), "claims 2305843009213693952 keys, but only 0 bytes");
  EXPECT_SAYS(Forge().start(huge, 0), "claims 2305843009213693952 tensors");
  EXPECT_SAYS(Forge().start(0, 1).key("", 8).data(64), "expected 1 to 65535");
  EXPECT_SAYS(Forge().start(0, 1).key("\xff", 0).data(64), "is not UTF-8");
  EXPECT_SAYS(Forge().start(0, 1).key("k", 13).data(64), "its type 13 is unknown");
  EXPECT_SAYS(Forge().start(0, 1).key("k", 7).number(uint8_t{2}).data(64), "a bool is 2");
  EXPECT_SAYS(Forge().start(0, 1).key("k", 8).number(huge).data(64), "claims 23058");
  EXPECT_SAYS(Forge().start(0, 1).key("k", 9).number(9u).number(uint64_t{1}).data(64),
              "arrays of arrays");
  EXPECT_SAYS(Forge().start(0, 1).key("k", 9).number(4u).number(huge).data(64),
              "an array of 23058");
  EXPECT_SAYS(Forge().start(0, 1).key("k", 9).number(4u).number(uint64_t{100}).data(64),
              "claims 100 elements");
  EXPECT_SAYS(
      Forge().start(0, 1).key("k", 9).number(7u).number(uint64_t{1}).number(uint8_t{9}).data(64),
      "9 does not fit into bool");
  EXPECT_SAYS(Forge().start(0, 2).key("k", 4).number(1u).key("k", 4).number(1u).data(64),
              "the key 'k' is there twice");
}

TEST(BadGguf, has_tensors_that_cannot_be) {
  const auto with_alignment = [](uint32_t alignment) {
    return Forge().start(1, 1).key("general.alignment", 4).number(alignment);
  };
  for (uint32_t alignment : {0u, 3u, 4u, 48u})
    EXPECT_SAYS(with_alignment(alignment).tensor("t", {4}, 0, 0).data(64),
                "expected a power of two");
  EXPECT_SAYS(
      Forge().start(1, 1).key("general.alignment", 5).number(32).tensor("t", {4}, 0, 0).data(64),
      "expected uint32, got int32");
  EXPECT_SAYS(with_alignment(1u << 31).tensor("t", {4}, 0, 0).data(64), "exceeds the file");
  const auto tensor = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    return Forge().start(1, 0).tensor("t", std::move(dims), type, offset).data(1024);
  };
  EXPECT_EQ(tensor({4}, 0, 0).problem(), "");
  EXPECT_EQ(tensor({4, 0}, 0, 0).problem(), "");
  EXPECT_SAYS(tensor({1, 1, 1, 1, 1}, 0, 0), "has 5 dims");
  EXPECT_SAYS(tensor({UINT64_MAX}, 0, 0), "has a size of");
  EXPECT_SAYS(tensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0), "larger than the file");
  EXPECT_SAYS(tensor({uint64_t{1} << 62}, 0, 0), "larger than the file");
  EXPECT_SAYS(tensor({33}, 2, 0), "expected a multiple of 32");
  EXPECT_SAYS(tensor({4}, 4, 0), "unknown type 4");
  EXPECT_SAYS(tensor({256}, 16, 0), "IQ2_XXS, which is not supported");
  EXPECT_SAYS(tensor({4}, 0, 8), "no multiple of 32");
  EXPECT_SAYS(tensor({4}, 0, 1024), "cut off or damaged");
  EXPECT_SAYS(tensor({260}, 0, 0), "cut off or damaged");
  EXPECT_SAYS(tensor({4}, 0, UINT64_MAX - 31), "cut off or damaged");
  EXPECT_SAYS(Forge().start(1, 0).tensor("", {4}, 0, 0).data(64), "is empty, too long");
  EXPECT_SAYS(Forge().start(2, 0).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).data(64),
              "the tensor 't' is there twice");
  EXPECT_SAYS(Forge().start(2, 0).tensor("t", {16}, 0, 0).tensor("u", {4}, 0, 32).data(64),
              "overlap");
}

TEST(BadGguf, is_named_with_its_path) {
  const TemporaryFolder folder;
  write_file(folder / "x.gguf", "not this");
  EXPECT_EQ(error_of([&] { ModelFile::open(folder / "x.gguf"); }),
            concat("gguf: '", folder / "x.gguf",
                   "': it is not a GGUF file: it does not begin with \"GGUF\""));
  EXPECT_TRUE(contains(error_of([&] { ModelFile::open(folder / "none.gguf"); }), "No such file"));
}

TEST(RealGguf, is_read) {
  const std::string path = testing::real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
  const ModelFile file = ModelFile::open(path);
  EXPECT_EQ(file.architecture(), "llama");
  EXPECT_EQ(file.metadata().get<int64_t>("llama.block_count"), 5);
  EXPECT_EQ(file.metadata().get<int64_t>("tokenizer.ggml.padding_token_id"), 4294967295);
  EXPECT_EQ(file.metadata().get<std::vector<std::string>>("tokenizer.ggml.tokens").size(), 512u);
  EXPECT_EQ(file.names().size(), 48u);
  EXPECT_EQ(file.info("blk.0.attn_k.weight").sizes, (Shape{32, 64}));
  EXPECT_EQ(file.tensor("token_embd.weight").sizes(), (Shape{512, 64}));
}

}  // namespace
}  // namespace tensora::llm
