#include <cstring>

#include "tensora/data.h"
#include "tensora/io/checksum.h"
#include "tests/data/files.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using namespace tensora::data;
using Bytes = std::vector<uint8_t>;

void expect_says(const std::function<void()>& body, std::string_view part) {
  const std::string said = error_of(body);
  EXPECT_TRUE(contains(said, part)) << "expected '" << part << "' in '" << said << "'";
}

Tensor random_image(int64_t channels, int64_t height, int64_t width) {
  return randint(0, 256, {channels, height, width}, {.dtype = kUInt8});
}

/// Colours that change slowly, as JPEG expects them.
Tensor smooth_image(int64_t height, int64_t width) {
  const Tensor y = linspace(0, 1, height).reshape({height, 1}), x = linspace(0, 1, width);
  return (stack({y + x * 0, x + y * 0, (x + y) / 2}) * 255).to(kUInt8);
}

TEST(Image, PngKeepsEveryPixel) {
  manual_seed(1);
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = random_image(channels, 5, 7);
    EXPECT_TRUE(equal(decode_image(encode_png(image)), image)) << channels;
  }
  const Tensor strided = random_image(5, 3, 7).permute({1, 0, 2});
  EXPECT_TRUE(equal(decode_image(encode_png(strided)), strided));
  const Tensor matrix = random_image(1, 4, 4)[0];
  EXPECT_TRUE(equal(decode_image(encode_png(matrix))[0], matrix));
}

TEST(Image, HugeImagesInSmallFilesAreRefused) {
  Bytes file = encode_png(random_image(3, 5, 7));
  const auto claim = [&](uint8_t high) {  // both sides of 256 * high pixels, in the header at 16
    for (const size_t at : {size_t{16}, size_t{20}}) {
      file[at] = file[at + 1] = file[at + 3] = 0;
      file[at + 2] = high;
    }
    const uint32_t sum = __builtin_bswap32(io::crc32({file.data() + 12, 17}));
    std::memcpy(file.data() + 29, &sum, sizeof sum);
  };
  claim(64);  // 16384 x 16384
  expect_says([&] { decode_image(file); },
              "the image of 16384 x 16384 pixels would take 805306368 bytes");
  expect_says([&] { decode_image(file); }, "raise TENSORA_UNPACK_LIMIT");
  claim(1);
  expect_says([&] { decode_image(file); }, "a broken PNG image");
}

TEST(Image, FloatingValuesAreRounded) {
  const Tensor image = tensor({{0.0, 0.5, 1.0, -1.0, 2.0}});
  EXPECT_EQ(values(decode_image(encode_png(image))), (Values{0, 128, 255, 0, 255}));
}

TEST(Image, Modes) {
  const Tensor image = tensor({255, 0, 0, 10, 20, 30}, {.dtype = kUInt8}).reshape({2, 1, 3});
  const Tensor rgb = image.permute({2, 1, 0});  // a red pixel, and (10, 20, 30)
  EXPECT_EQ(values(decode_image(encode_png(rgb), ImageMode::gray)), (Values{76, 18}));
  const Tensor gray = tensor({{{5, 6}}}, {.dtype = kUInt8});
  EXPECT_EQ(values(decode_image(encode_png(gray), ImageMode::rgb)), (Values{5, 6, 5, 6, 5, 6}));
  const Tensor alpha = cat({rgb, gray.reshape({1, 1, 2})});
  EXPECT_TRUE(equal(decode_image(encode_png(alpha), ImageMode::rgb), rgb));
  const Tensor gray_alpha = cat({gray, gray});
  EXPECT_TRUE(equal(decode_image(encode_png(gray_alpha), ImageMode::gray), gray));
}

TEST(Image, JpegIsClose) {
  const Tensor image = smooth_image(40, 60);
  const Tensor back = decode_image(encode_jpeg(image, {.quality = 95}));
  EXPECT_EQ(back.sizes(), image.sizes());
  EXPECT_LT((back.to(kFloat32) - image.to(kFloat32)).abs().max().item<double>(), 12);
  const Tensor gray = decode_image(encode_jpeg(image), ImageMode::gray);
  EXPECT_EQ(gray.sizes(), (Shape{1, 40, 60}));
  EXPECT_EQ(decode_image(encode_jpeg(gray)).size(0), 1);
  EXPECT_EQ(decode_image(encode_jpeg(gray), ImageMode::rgb).size(0), 3);
}

TEST(Image, BrokenFilesAreErrors) {
  expect_says([] { decode_image({}); }, "expected a PNG or JPEG image, got 0 bytes");
  expect_says([] { decode_image(Bytes{'G', 'I', 'F', '8'}); }, "decode_image: expected a PNG");
  const Bytes png = encode_png(smooth_image(20, 20)), jpeg = encode_jpeg(smooth_image(20, 20));
  for (const Bytes& whole : {png, jpeg})
    for (size_t size = 0; size + 12 < whole.size(); size += 7)
      EXPECT_THROW(decode_image(std::span(whole).first(size)), Error) << size;
  // Damage is an error or goes unnoticed, but does no harm.
  manual_seed(2);
  for (const Bytes& whole : {png, jpeg})
    for (int i = 0; i < 300; ++i) {
      Bytes damaged = whole;
      const auto place =
          static_cast<size_t>(randint(static_cast<int64_t>(whole.size()), {1}).item<int64_t>());
      damaged[place] ^= static_cast<uint8_t>(1 << (i % 8));
      error_of([&] { decode_image(damaged); });
    }
}

TEST(Image, AHugeClaimIsRefused) {
  Bytes png = encode_png(smooth_image(4, 4));
  for (size_t i = 16; i < 24; ++i) png[i] = 0x7f;  // width and height; the checksum is wrong too
  EXPECT_THROW(decode_image(png), Error);
  Bytes jpeg = encode_jpeg(smooth_image(4, 4));
  for (size_t i = 0; i + 8 < jpeg.size(); ++i)
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xc0)  // the frame header
      for (size_t k = 5; k < 9; ++k) jpeg[i + k] = 0x7f;
  expect_says([&] { decode_image(jpeg); }, "32639 x 32639");
}

TEST(Image, Mistakes) {
  expect_says([] { encode_png(ones({2, 3, 4, 5})); }, "encode_png: expected an image");
  expect_says([] { encode_png(Tensor()); }, "undefined");
  expect_says([] { encode_png(ones({5, 2, 2})); }, "1 to 4 channels");
  expect_says([] { encode_png(ones({3, 0, 2})); }, "shape [3, 0, 2]");
  expect_says([] { encode_png(ones({2, 2}, kInt64)); }, "int64");
  expect_says([] { encode_jpeg(ones({2, 2, 2})); }, "1 or 3 channels, got 2");
  expect_says([] { encode_jpeg(ones({2, 2}), {.quality = 0}); }, "quality from 1 to 100, got 0");
  expect_says([] { make_grid(ones({3, 2, 2})); }, "expected images [N, C, H, W]");
}

TEST(Image, Files) {
  const TemporaryFolder folder;
  const Tensor image = smooth_image(8, 9);
  write_png(folder / "a.png", image);
  EXPECT_TRUE(equal(read_image(folder / "a.png"), image));
  write_jpeg(folder / "a.jpg", image);
  EXPECT_EQ(read_image(folder / "a.jpg").sizes(), image.sizes());
  expect_says([&] { read_image(folder / "none.png"); }, "none.png");
  expect_says([&] { read_image(folder.write("b.png", "text")); }, "b.png': expected a PNG or JPEG");
}

TEST(Image, Grid) {
  const Tensor images = arange(1, 4).reshape({3, 1, 1, 1});
  EXPECT_EQ(values(make_grid(images, {.nrow = 2, .padding = 1})),
            (Values{0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(make_grid(ones({3, 3, 4, 5})).sizes(), (Shape{3, 8, 23}));
}

TEST(ImageFolder, NumbersClassesByName) {
  const TemporaryFolder folder;
  const Bytes png = encode_png(smooth_image(4, 4));
  folder.write("dog/2.PNG", png);
  folder.write("dog/1.png", png);
  folder.write("cat/deep/3.jpeg", encode_jpeg(smooth_image(4, 4)));
  folder.write("cat/notes.txt", "not an image");
  folder.write("readme", "not a class");
  const ImageFolder data(folder.path());
  EXPECT_EQ(data.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.samples()[1].first, folder / "dog/1.png");
  EXPECT_EQ(data.get(0)[1].item<int64_t>(), 0);
  EXPECT_EQ(data.get(2)[1].item<int64_t>(), 1);
  EXPECT_EQ(data.get(0)[0].sizes(), (Shape{3, 4, 4}));
  EXPECT_EQ(data.get(0)[0].dtype(), kFloat32);
  DataLoader loader(data, {.batch_size = 3, .num_workers = 2});
  EXPECT_EQ((*loader.next())[0].sizes(), (Shape{3, 3, 4, 4}));
}

TEST(ImageFolder, NamesTheBrokenFile) {
  const TemporaryFolder folder;
  folder.write("a/good.png", encode_png(smooth_image(4, 4)));
  Bytes cut = encode_jpeg(smooth_image(40, 40));
  cut.resize(cut.size() / 2);
  const std::string path = folder.write("a/bad.jpg", cut);
  DataLoader loader(ImageFolder(folder.path()), {.num_workers = 1});
  expect_says([&] { loader.next(); }, path);
  EXPECT_TRUE(loader.next());
  const auto refuse = [](const Tensor&, Generator&) -> Tensor { fail("Refuse: no"); };
  expect_says([&] { ImageFolder(folder.path(), {.transform = refuse}).get(1); },
              "good.png': Refuse");
}

TEST(ImageFolder, Mistakes) {
  const TemporaryFolder folder;
  expect_says([&] { ImageFolder(folder / "none"); }, "expected a folder");
  expect_says([&] { ImageFolder(folder.path()); }, "a folder per class");
  folder.write("a/x.txt", "");
  expect_says([&] { ImageFolder(folder.path()); }, "there is no .png, .jpg or .jpeg file in");
}

}  // namespace
}  // namespace tensora::testing
