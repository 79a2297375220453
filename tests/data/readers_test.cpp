#include "tensora/data.h"
#include "tests/data/files.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using namespace tensora::data;
using Bytes = std::vector<uint8_t>;

/// An IDX file: magic, sizes, contents.
Bytes idx(uint8_t type, const std::vector<uint32_t>& sizes, const Bytes& contents) {
  Bytes file = {0, 0, type, static_cast<uint8_t>(sizes.size())};
  for (const uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<uint8_t>(size >> shift));
  file.insert(file.end(), contents.begin(), contents.end());
  return file;
}

// idx(8, {2, 3}, {1, 2, 3, 4, 5, 6}), packed by gzip.
const Bytes kPacked = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63, 0x60,
                       0xe0, 0x60, 0x62, 0x60, 0x60, 0x00, 0x61, 0x66, 0x46, 0x26, 0x66, 0x16,
                       0x56, 0x36, 0x00, 0x48, 0x94, 0x3e, 0xe5, 0x12, 0x00, 0x00, 0x00};

void expect_says(const std::function<void()>& body, std::string_view part) {
  const std::string said = error_of(body);
  EXPECT_TRUE(contains(said, part)) << "expected '" << part << "' in '" << said << "'";
}

TEST(Idx, Reads) {
  EXPECT_EQ(values(decode_idx(idx(8, {2, 3}, {1, 2, 3, 4, 5, 6}))), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decode_idx(idx(8, {2, 3}, {1, 2, 3, 4, 5, 6})).sizes(), (Shape{2, 3}));
  EXPECT_EQ(values(decode_idx(idx(9, {2}, {255, 1}))), (Values{-1, 1}));
  EXPECT_EQ(values(decode_idx(idx(0x0b, {2}, {1, 0, 255, 254}))), (Values{256, -2}));
  EXPECT_EQ(values(decode_idx(idx(0x0c, {1}, {0, 1, 0, 0}))), (Values{65536}));
  EXPECT_EQ(values(decode_idx(idx(0x0d, {1}, {0x3f, 0xc0, 0, 0}))), (Values{1.5}));
  EXPECT_EQ(values(decode_idx(idx(0x0e, {1}, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0}))), (Values{1.5}));
  EXPECT_EQ(values(decode_idx(kPacked)), (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decode_idx(idx(8, {0, 5}, {})).sizes(), (Shape{0, 5}));
}

TEST(Idx, RefusesWhatIsBroken) {
  expect_says([] { decode_idx({}); }, "cut off");
  expect_says([] { decode_idx(Bytes{0, 0, 8}); }, "cut off");
  expect_says([] { decode_idx(Bytes{1, 0, 8, 1, 0, 0, 0, 1, 5}); }, "not an IDX file");
  expect_says([] { decode_idx(Bytes{0, 0, 8, 0}); }, "not an IDX file");
  expect_says([] { decode_idx(Bytes{0, 0, 8, 17}); }, "not an IDX file");
  expect_says([] { decode_idx(idx(7, {1}, {1})); }, "unknown type 7");
  expect_says([] { decode_idx(Bytes{0, 0, 8, 3, 0, 0}); }, "cut off: the header");
  expect_says(
      [] {
        decode_idx(idx(8, {2, 3}, {1, 2, 3, 4, 5}));
      },
      "decode_idx: it is cut off: the tensor should have 6 bytes, 5 are there");
  expect_says([] { decode_idx(idx(8, {2, 3}, {1, 2, 3, 4, 5, 6, 7})); }, "more bytes");
}

TEST(Idx, FindsALieBeforeItAllocates) {
  expect_says([] { decode_idx(idx(8, {0xffffffff, 0xffff}, {1})); }, "cannot hold");
  expect_says([] { decode_idx(idx(0x0e, {0xffffffff, 0xffffffff, 0xffffffff}, {1})); }, "");
  Bytes packed = kPacked;
  packed.resize(20);
  expect_says([&] { decode_idx(packed); }, "cut off");
  packed = kPacked;
  packed[15] ^= 0x55;
  EXPECT_THROW(decode_idx(packed), Error);
  packed = kPacked;
  packed[28] ^= 1;  // the checksum
  EXPECT_THROW(decode_idx(packed), Error);
}

TEST(Idx, EveryCutOfAFileIsAnError) {
  for (const Bytes& whole : {kPacked, idx(8, {2, 3}, {1, 2, 3, 4, 5, 6})})
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_THROW(decode_idx(std::span(whole).first(size)), Error) << size;
}

TEST(Idx, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  expect_says([&] { read_idx(folder / "none"); }, "none'");
  expect_says([&] { read_idx(folder.write("bad", "nonsense")); }, "bad': it is not an IDX file");
  expect_says([&] { read_idx(folder.path()); }, "folder");
}

TEST(MNIST, ReadsSmallFiles) {
  const TemporaryFolder folder;
  Bytes pixels(3 * 28 * 28, 0);
  pixels[28 * 28] = 255;
  folder.write("MNIST/raw/t10k-images-idx3-ubyte", idx(8, {3, 28, 28}, pixels));
  folder.write("MNIST/raw/t10k-labels-idx1-ubyte", idx(8, {3}, {7, 8, 9}));
  const MNIST data(folder.path(), {.train = false});
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.get(1)[0].sizes(), (Shape{1, 28, 28}));
  EXPECT_EQ(data.get(1)[0].sum().item<double>(), 1);
  EXPECT_EQ(data.get(1)[1].item<int64_t>(), 8);
  DataLoader loader(data, {.batch_size = 2});
  const Batch batch = *loader.next();
  EXPECT_TRUE(equal(batch[0][1], data.get(1)[0]));
  EXPECT_EQ(values(batch[1]), (Values{7, 8}));
  const MNIST raw(folder.path(), {.train = false, .transform = [](const Tensor& image, Generator&) {
                                    return image;
                                  }});
  EXPECT_EQ(raw.get(1)[0].dtype(), kUInt8);
}

TEST(MNIST, Mistakes) {
  const TemporaryFolder folder;
  expect_says([&] { MNIST(folder.path()); }, "train-images-idx3-ubyte.gz");
  folder.write("train-images-idx3-ubyte", idx(8, {2, 1, 1}, {0, 0}));
  folder.write("train-labels-idx1-ubyte", idx(8, {1}, {0}));
  expect_says([&] { MNIST(folder.path()); }, "2 images and 1 labels");
  folder.write("train-images-idx3-ubyte", idx(8, {2}, {0, 0}));
  expect_says([&] { MNIST(folder.path()); }, "expected uint8 images [N, H, W]");
}

TEST(MNIST, ReadsTheRealFiles) {
  const std::string folder = real_data("mnist");
  if (folder.empty())
    GTEST_SKIP() << "no MNIST files; TENSORA_TEST_DATA names their folder's folder";
  const MNIST train(folder), test(folder, {.train = false});
  EXPECT_EQ(train.images().sizes(), (Shape{60000, 1, 28, 28}));
  EXPECT_EQ(test.images().sizes(), (Shape{10000, 1, 28, 28}));
  EXPECT_EQ(values(train.labels().slice(0, 0, 8)), (Values{5, 0, 4, 1, 9, 2, 1, 3}));
  EXPECT_EQ(train.images().to(kInt64).sum().item<int64_t>(), 1567298545);
  EXPECT_EQ(test.labels().sum().item<int64_t>(), 44434);
}

TEST(CIFAR10, Reads) {
  const TemporaryFolder folder;
  Bytes file;
  for (int i = 0; i < 4; ++i) {
    file.push_back(static_cast<uint8_t>(i));
    for (int k = 0; k < 3072; ++k) file.push_back(static_cast<uint8_t>(k / 1024 * 50));
  }
  folder.write("cifar-10-batches-bin/test_batch.bin", file);
  const CIFAR10 test(folder.path(), {.train = false});
  EXPECT_EQ(test.size(), 4);
  EXPECT_EQ(test.get(3)[1].item<int64_t>(), 3);
  EXPECT_EQ(test.images().sizes(), (Shape{4, 3, 32, 32}));
  EXPECT_EQ(test.images()[2][1][5][5].item<int64_t>(), 50);
  expect_says([&] { CIFAR10(folder.path()); }, "data_batch_1.bin");
  for (int i = 1; i <= 5; ++i) folder.write(concat("data_batch_", i, ".bin"), file);
  EXPECT_EQ(CIFAR10(folder.path()).size(), 20);
  file.pop_back();
  folder.write("data_batch_3.bin", file);
  expect_says([&] { CIFAR10(folder.path()); }, "data_batch_3.bin': expected records of 3073 bytes");
  file.push_back(0);
  file[3073] = 10;
  folder.write("data_batch_3.bin", file);
  expect_says([&] { CIFAR10(folder.path()); }, "record 1 has the label 10");
}

TEST(Csv, Reads) {
  const CsvTable table = parse_csv("x, y ,\"a \"\"z\"\"\"\n1,2.5,-3e2\r\n\n\"4\", +5 ,nan\n");
  EXPECT_EQ(table.columns, (std::vector<std::string>{"x", "y", "a \"z\""}));
  EXPECT_EQ(table.values.sizes(), (Shape{2, 3}));
  EXPECT_EQ(values(table.column("y")), (Values{2.5, 5}));
  EXPECT_EQ(table.values.dtype(), kFloat32);
  EXPECT_EQ(table.values[0][2].item<double>(), -300);
  const auto rows = [](std::string_view text, CsvOptions options) {
    return values(parse_csv(text, options).values);
  };
  EXPECT_EQ(rows("1;2\n3;4", {.header = false, .delimiter = ';'}), (Values{1, 2, 3, 4}));
  EXPECT_EQ(rows("\xef\xbb\xbf"
                 "a,b\n1,\n",
                 {.missing = -1}),
            (Values{1, -1}));
  EXPECT_EQ(rows("a,b,c\n1,text,3\n", {.columns = {"c", "a"}}), (Values{3, 1}));
  EXPECT_EQ(rows("a\n16777217\n", {.dtype = kInt64}), (Values{16777217}));
  EXPECT_EQ(parse_csv("a,b\n").values.sizes(), (Shape{0, 2}));
}

TEST(Csv, NamesLineAndColumn) {
  const auto says = [](std::string_view text, std::string_view part, CsvOptions options = {}) {
    expect_says([&] { parse_csv(text, options); }, part);
  };
  says("", "empty");
  says("\n\n", "empty");
  says("a,b\n1,2\n3,four\n", "line 3, column 2 ('b'): expected a number, got 'four'");
  says("a,b\n\"1\n\",2\n", "line 2, column 1 ('a')");
  says("a,b\n1,2\n\n1,\n", "line 4, column 2 ('b'): expected a number, got ''");
  says("a,b\n1,2,3\n", "line 2: expected 2 cells, got 3");
  says("a,b\n1\n", "line 2: expected 2 cells, got 1");
  says("a,b\n1,1 2\n", "got '1 2'");
  says("a,b\n1,0x10\n", "got '0x10'");
  says("a,b\n1,\"2\n", "line 2: a quote is not closed");
  says("a,b\n1,\"2\"3\n", "line 2: something follows a closed quote");
  says("a,b\n1,2\n", "no column 'c'; the columns are 'a', 'b'", {.columns = {"c"}});
  const TemporaryFolder folder;
  expect_says([&] { read_csv(folder.write("t.csv", "a\nx\n")); }, "t.csv': line 2");
  expect_says([&] { parse_csv("a\n1\n").column("b"); }, "no column 'b'");
}

TEST(Tokens, ReadsAFileWithoutCopying) {
  const TemporaryFolder folder;
  for (const TokenWidth width : {TokenWidth::uint16, TokenWidth::uint32}) {
    const std::string path = folder / "tokens.bin";
    write_tokens(path, std::vector<int64_t>{5, 65535, 7, 8, 9, 10, 11}, width);
    const Tokens tokens = Tokens::open(path, {.width = width});
    EXPECT_EQ(tokens.size(), 7);
    EXPECT_EQ(tokens[1], 65535);
    EXPECT_EQ(tokens.slice(2, 4)[1], 8);
    const int64_t header = static_cast<int64_t>(width) * 2;
    EXPECT_EQ(Tokens::open(path, {.width = width, .header_bytes = header})[0], 7);
  }
  EXPECT_EQ(Tokens(std::vector<uint16_t>{1, 2})[1], 2);
  EXPECT_EQ(Tokens(std::vector<uint32_t>{1, 70000})[1], 70000);
}

TEST(Tokens, Blocks) {
  std::vector<uint16_t> numbers;
  for (uint16_t i = 0; i < 10; ++i) numbers.push_back(i);
  const Tokens tokens(numbers);
  const TokenDataset blocks(tokens, {.block_size = 3});
  EXPECT_EQ(blocks.size(), 3);
  EXPECT_EQ(values(blocks.get(2)[0]), (Values{6, 7, 8}));
  EXPECT_EQ(values(blocks.get(2)[1]), (Values{7, 8, 9}));
  EXPECT_EQ(TokenDataset(tokens, {.block_size = 9}).size(), 1);
  EXPECT_EQ(TokenDataset(tokens, {.block_size = 3, .stride = 1}).size(), 7);
  EXPECT_EQ(values(TokenDataset(tokens, {.block_size = 3, .stride = 1}).get(6)[1]),
            (Values{7, 8, 9}));
  EXPECT_EQ(TokenDataset(tokens.slice(0, 7), {.block_size = 3}).size(), 2);
  for (const int workers : {0, 2}) {
    DataLoader loader(blocks, {.batch_size = 3, .shuffle = true, .num_workers = workers});
    const Batch batch = *loader.next();
    EXPECT_EQ(batch[0].sizes(), (Shape{3, 3}));
    EXPECT_TRUE(equal(batch[0] + 1, batch[1]));
  }
}

TEST(Tokens, Mistakes) {
  const TemporaryFolder folder;
  const std::string odd = folder.write("odd.bin", "abc");
  expect_says([&] { Tokens::open(odd); }, "odd.bin': expected tokens of 2 bytes each, got 3 bytes");
  expect_says([&] { Tokens::open(odd, {.width = TokenWidth::uint32}); }, "4 bytes each");
  expect_says([&] { Tokens::open(odd, {.header_bytes = 4}); }, "a header of 4 bytes");
  expect_says([&] { Tokens::open(folder / "none.bin"); }, "none.bin");
  EXPECT_EQ(Tokens::open(folder.write("empty.bin", "")).size(), 0);
  const Tokens few(std::vector<uint16_t>{1, 2, 3});
  expect_says([&] { TokenDataset(few, {.block_size = 3}); },
              "3 tokens is too short for a block_size of 3");
  expect_says([&] { TokenDataset(few, {.block_size = 0}); }, "block_size above 0");
  expect_says([&] { TokenDataset(few, {.block_size = 1, .stride = -1}); }, "stride");
  expect_says([&] { TokenDataset(few, {.block_size = 1}).get(2); }, "index 2");
  expect_says([&] { static_cast<void>(few[3]); }, "index 3");
  expect_says([&] { few.slice(1, 4); }, "from 1 to 4");
  expect_says([&] { write_tokens(folder / "x", std::vector<int64_t>{65536}); }, "token 0 is 65536");
  expect_says([&] { write_tokens(folder / "x", std::vector<int64_t>{-1}); }, "token 0 is -1");
}

TEST(TextLines, Reads) {
  const TemporaryFolder folder;
  const TextLines lines(folder.write("t.txt", "one\r\n\nthree\nlast"));
  EXPECT_EQ(lines.size(), 4);
  EXPECT_EQ(lines.line(0), "one");
  EXPECT_EQ(lines.line(1), "");
  EXPECT_EQ(lines.line(3), "last");
  EXPECT_EQ(values(lines.get(2)[0]), (Values{'t', 'h', 'r', 'e', 'e'}));
  EXPECT_EQ(lines.get(1)[0].numel(), 0);
  expect_says([&] { static_cast<void>(lines.line(4)); }, "index 4");
  EXPECT_EQ(TextLines(folder.write("empty.txt", "")).size(), 0);
  EXPECT_EQ(TextLines(folder.write("end.txt", "a\n")).size(), 1);
  EXPECT_EQ(read_text(folder / "end.txt"), "a\n");
  expect_says([&] { read_text(folder / "none.txt"); }, "none.txt");
}

}  // namespace
}  // namespace tensora::testing
