#include <set>

#include "tensora/data.h"
#include "tests/helpers.h"

// Expected numbers are those of torchvision's formulas, computed with PyTorch.

namespace tensora::testing {
namespace {

using namespace tensora::data;

template <class Body>
void expect_says(const Body& body, std::string_view part) {
  const std::string said = error_of(body);
  EXPECT_TRUE(contains(said, part)) << "expected '" << part << "' in '" << said << "'";
}

Tensor run(const Transform& transform, const Tensor& image, uint64_t seed = 0) {
  Generator generator(seed);
  return transform(image, generator);
}

Tensor ramp(int64_t height, int64_t width) {
  return arange(height * width).to(kFloat32).reshape({1, height, width});
}

/// A colour image of bytes: 0, 29, 58, …
Tensor bytes() { return ((arange(27) * 29).remainder(256)).to(kUInt8).reshape({3, 3, 3}); }

void expect_near(const Tensor& got, const Values& expected) {
  const Values numbers = values(got);
  ASSERT_EQ(numbers.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(numbers[i], expected[i], 1e-4) << i;
}

TEST(Transforms, Conversions) {
  const Tensor image = tensor({{{0, 51, 255}, {1, 2, 3}}}, {.dtype = kUInt8});  // [H 1, W 2, C 3]
  expect_near(run(ToTensor(), image), {0, 1 / 255., 0.2, 2 / 255., 1, 3 / 255.});
  EXPECT_EQ(run(ToTensor(), image).sizes(), (Shape{3, 1, 2}));
  EXPECT_EQ(run(ToTensor(), image[0]).sizes(), (Shape{1, 2, 3}));
  EXPECT_EQ(values(convert_image_dtype(tensor({0.0, 0.5, 1.0}), kUInt8)), (Values{0, 127, 255}));
  EXPECT_EQ(convert_image_dtype(image, kFloat16).dtype(), kFloat16);
  expect_says([&] { convert_image_dtype(ones({2}, kInt64)); }, "int64");
  expect_says([&] { convert_image_dtype(image, kInt64); }, "int64");
}

TEST(Transforms, Normalize) {
  const Tensor image = stack({full({1, 2}, 3.0), full({1, 2}, 5.0)});
  EXPECT_EQ(values(run(Normalize({1, 2}, {2, 0.5}), image)), (Values{1, 1, 6, 6}));
  EXPECT_EQ(values(run(Normalize({1}, {2}), image)), (Values{1, 1, 2, 2}));
  expect_says([&] { run(Normalize({1, 2, 3}, {1, 1, 1}), image); }, "an image of 3 channels");
  expect_says([&] { run(Normalize({1}, {1}), bytes()); }, "a floating image, got uint8");
  expect_says([] { Normalize({1}, {0}); }, "other than 0");
  expect_says([] { Normalize({1}, {1, 2}); }, "got 1 and 2");
}

TEST(Transforms, Resize) {
  const Values smaller = {5, 6.785714626, 8.571428299, 14.428572655, 16.214286804, 18};
  expect_near(run(Resize(2, 3), ramp(4, 6)), smaller);
  expect_near(run(Resize(2), ramp(4, 6)), smaller);
  EXPECT_EQ(run(Resize(2), ramp(6, 4)).sizes(), (Shape{1, 3, 2}));
  EXPECT_EQ(run(Resize(5), ones({3, 10, 17})).sizes(), (Shape{3, 5, 8}));
  const Tensor image = ((arange(24) * 37).remainder(256)).to(kUInt8).reshape({1, 4, 6});
  EXPECT_EQ(values(run(Resize(3, 4), image)),
            (Values{52, 56, 109, 161, 171, 57, 68, 120, 178, 159, 47, 79}));
  expect_says([] { Resize(0); }, "a size above 0");
  expect_says([] { run(Resize(2), ones({3, 4})); }, "[C, H, W], got shape [3, 4]");
  expect_says([] { run(Resize(2), Tensor()); }, "undefined");
}

TEST(Transforms, CenterCrop) {
  EXPECT_EQ(values(run(CenterCrop(2), ramp(4, 4))), (Values{5, 6, 9, 10}));
  EXPECT_EQ(values(run(CenterCrop({1, 2}), ramp(4, 3))), (Values{6, 7}));  // halves to even
  EXPECT_EQ(values(run(CenterCrop({1, 4}), ramp(1, 1) + 7)), (Values{0, 7, 0, 0}));
}

TEST(Transforms, Pad) {
  EXPECT_EQ(values(run(Pad({1, 0, 0, 0}), ramp(1, 2))), (Values{0, 0, 1}));
  EXPECT_EQ(values(run(Pad({0, 0, 1, 1}, {.fill = 9}), ramp(1, 2))), (Values{0, 1, 9, 9, 9, 9}));
  EXPECT_EQ(values(run(Pad({1, 0, 1, 0}, {.padding_mode = "edge"}), ramp(1, 2))),
            (Values{0, 0, 1, 1}));
  EXPECT_EQ(values(run(Pad({1, 0, 1, 0}, {.padding_mode = "reflect"}), ramp(1, 3))),
            (Values{1, 0, 1, 2, 1}));
  EXPECT_EQ(run(Pad(2), bytes()).sizes(), (Shape{3, 7, 7}));
  EXPECT_EQ(run(Pad(1), bytes()).dtype(), kUInt8);
  expect_says([] { Pad(1, {.padding_mode = "mirror"}); }, "got 'mirror'");
}

TEST(Transforms, RandomCrop) {
  std::set<double> corners;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Tensor part = run(RandomCrop(2), ramp(3, 4), seed);
    EXPECT_EQ(part.sizes(), (Shape{1, 2, 2}));
    EXPECT_EQ(part[0][1][1].item<double>() - part[0][0][0].item<double>(), 5);
    corners.insert(part[0][0][0].item<double>());
  }
  EXPECT_EQ(corners, (std::set<double>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(run(RandomCrop(4, {.padding = 1}), ramp(2, 2)).sizes(), (Shape{1, 4, 4}));
  EXPECT_EQ(run(RandomCrop(5, {.pad_if_needed = true}), ramp(2, 2)).sizes(), (Shape{1, 5, 5}));
  expect_says([] { run(RandomCrop(3), ramp(2, 2)); }, "the image of 2 x 2 is smaller");
}

TEST(Transforms, RandomResizedCrop) {
  for (uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(run(RandomResizedCrop(7), bytes(), seed).sizes(), (Shape{3, 7, 7}));
  // Nothing of that shape fits: the middle, as far as the ratio allows.
  const RandomResizedCrop square(1, {.scale = {1, 1}, .ratio = {1, 1}});
  EXPECT_EQ(values(run(square, ramp(1, 5))), (Values{2}));
  expect_says([] { RandomResizedCrop(1, {.scale = {0, 1}}); }, "scale");
  expect_says([] { RandomResizedCrop(1, {.ratio = {2, 1}}); }, "ratio");
}

TEST(Transforms, Flips) {
  EXPECT_EQ(values(run(RandomHorizontalFlip{1}, ramp(2, 2))), (Values{1, 0, 3, 2}));
  EXPECT_EQ(values(run(RandomVerticalFlip{1}, ramp(2, 2))), (Values{2, 3, 0, 1}));
  EXPECT_EQ(values(run(RandomHorizontalFlip{0}, ramp(2, 2))), (Values{0, 1, 2, 3}));
  int flips = 0;
  for (uint64_t seed = 0; seed < 400; ++seed)
    flips += run(RandomHorizontalFlip(), ramp(1, 2), seed)[0][0][0].item<int>();
  EXPECT_NEAR(flips, 200, 50);
  expect_says([] { run(RandomHorizontalFlip{1.5}, ramp(1, 2)); }, "p from 0 to 1, got 1.5");
}

TEST(Transforms, RandomErasing) {
  const Tensor image = ones({3, 20, 20});
  const RandomErasing erase({.p = 1, .scale = {0.1, 0.2}});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const double erased = 1 - run(erase, image, seed).mean().item<double>();
    EXPECT_GT(erased, 0.05);
    EXPECT_LT(erased, 0.25);
  }
  EXPECT_EQ(image.sum().item<double>(), 1200);  // the original is left alone
  EXPECT_TRUE(equal(run(RandomErasing({.p = 0}), image), image));
}

TEST(Transforms, Colours) {
  EXPECT_EQ(values(rgb_to_grayscale(bytes())), (Values{4, 33, 62, 91, 120, 149, 178, 207, 236}));
  EXPECT_EQ(values(adjust_brightness(bytes(), 1.5)),
            (Values{0,   43,  87,  130, 174, 217, 255, 255, 255, 7,   51,  94,  138, 181,
                    225, 255, 255, 255, 15,  58,  102, 145, 189, 232, 255, 255, 255}));
  EXPECT_EQ(values(adjust_contrast(bytes(), 0.5)),
            (Values{60,  74,  89,  103, 118, 132, 147, 161, 176, 62,  77,  91,  106, 120,
                    135, 149, 164, 178, 65,  79,  94,  108, 123, 137, 152, 166, 181}));
  EXPECT_EQ(values(adjust_saturation(bytes(), 1.7)),
            (Values{0,   26,  55,  84,  113, 142, 171, 200, 229, 5,   34,  63,  92, 121,
                    150, 179, 208, 237, 14,  43,  72,  101, 130, 159, 188, 217, 246}));
  EXPECT_EQ(values(autocontrast(bytes()))[4], 127);
  EXPECT_EQ(values(invert(bytes()))[1], 226);
  EXPECT_EQ(values(posterize(bytes(), 3))[8], 224);
  EXPECT_EQ(values(posterize(bytes(), 8)), values(bytes()));
  EXPECT_EQ(values(solarize(bytes(), 200))[8], 23);
  EXPECT_EQ(values(solarize(bytes(), 240))[8], 232);
  const Tensor n = arange(1024);
  const Tensor many = (div(n * n, 37, "floor").remainder(200)).to(kUInt8).reshape({1, 32, 32});
  EXPECT_EQ(equalize(many).to(kInt64).sum().item<int64_t>(), 130363);
  EXPECT_EQ(values(equalize(many)[0][3].slice(0, 0, 4)), (Values{69, 74, 82, 88}));
  EXPECT_TRUE(equal(adjust_sharpness(bytes(), 1), bytes()));
  const Tensor spot = pad(full({1, 1, 1}, 130.0), {1, 1, 1, 1});
  EXPECT_NEAR(adjust_sharpness(spot / 255, 0)[0][1][1].item<double>(), 50 / 255.0, 1e-6);
}

TEST(Transforms, Hue) {
  const Tensor pixels =
      tensor({{200, 10, 30}, {40, 220, 90}, {5, 5, 5}, {120, 130, 250}}, {.dtype = kUInt8});
  const Tensor image = pixels.t().reshape({3, 1, 4});
  const auto turned = [&](double factor) {
    return values(adjust_hue(image, factor).reshape({3, 4}).t());
  };
  EXPECT_EQ(turned(0.1), (Values{200, 104, 10, 40, 220, 198, 5, 5, 5, 188, 120, 250}));
  EXPECT_EQ(turned(-0.3), (Values{28, 10, 200, 220, 126, 40, 5, 5, 5, 120, 250, 136}));
  EXPECT_EQ(turned(0), values(pixels));
  expect_says([&] { adjust_hue(image, 0.6); }, "from -0.5 to 0.5, got 0.6");
}

TEST(Transforms, ColoursOfGrayAndFloatingImages) {
  const Tensor gray = full({1, 2, 2}, 0.5);
  for (const auto adjust : {adjust_brightness, adjust_contrast, adjust_saturation})
    EXPECT_TRUE(allclose(adjust(gray, 1), gray));
  EXPECT_TRUE(equal(adjust_hue(gray, 0.2), gray));
  EXPECT_EQ(values(adjust_brightness(gray, 3)), (Values{1, 1, 1, 1}));
  EXPECT_EQ(run(Grayscale{3}, bytes()).sizes(), (Shape{3, 3, 3}));
  expect_says([] { adjust_contrast(ones({2, 3, 3}), 1); }, "1 or 3 channels, got shape [2, 3, 3]");
  expect_says([] { adjust_contrast(ones({3, 3, 3}), -1); }, "at least 0, got -1");
  expect_says([] { equalize(ones({3, 3, 3})); }, "uint8");
  expect_says([] { posterize(bytes(), 9); }, "0 to 8 bits");
}

TEST(Transforms, ColorJitter) {
  const ColorJitter jitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1});
  EXPECT_TRUE(equal(run(jitter, bytes(), 3), run(jitter, bytes(), 3)));
  EXPECT_FALSE(equal(run(jitter, bytes(), 3), run(jitter, bytes(), 4)));
  EXPECT_TRUE(equal(run(ColorJitter({}), bytes()), bytes()));
  expect_says([] { ColorJitter({.hue = 0.6}); }, "hue of at most 0.5");
  expect_says([] { ColorJitter({.contrast = -1}); }, "at least 0, got -1");
}

TEST(Transforms, Affine) {
  EXPECT_EQ(values(affine(ramp(2, 2) + 1, {})), (Values{1, 2, 3, 4}));
  EXPECT_EQ(values(affine(ramp(1, 3) + 1, {.c = 1}, 9)), (Values{2, 3, 9}));
  // A quarter turn.
  EXPECT_EQ(values(affine(ramp(2, 2), {.a = 0, .b = 1, .d = -1, .e = 0})), (Values{2, 0, 3, 1}));
}

TEST(Transforms, RandAugment) {
  const Tensor image = randint(0, 256, {3, 24, 24}, {.dtype = kUInt8});
  std::set<int64_t> sums;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Tensor result = run(RandAugment(), image, seed);
    EXPECT_EQ(result.sizes(), image.sizes());
    EXPECT_EQ(result.dtype(), kUInt8);
    sums.insert(result.to(kInt64).sum().item<int64_t>());
  }
  EXPECT_GT(sums.size(), 40u);
  EXPECT_TRUE(equal(run(RandAugment(), image, 5), run(RandAugment(), image, 5)));
  EXPECT_TRUE(equal(run(RandAugment({.num_ops = 0}), image), image));
  EXPECT_EQ(run(RandAugment({.num_ops = 20}), image.slice(0, 0, 1)).size(0), 1);
  expect_says([] { run(RandAugment(), ones({3, 4, 4})); }, "expected a uint8 image");
  expect_says([] { RandAugment({.magnitude = 31}); }, "magnitude");
}

TEST(Transforms, ComposeAndOnImage) {
  const Compose both({[](const Tensor& image, Generator&) { return image + 1; },
                      [](const Tensor& image, Generator&) { return image * 2; }});
  EXPECT_EQ(values(run(both, ramp(1, 2))), (Values{2, 4}));
  const MapDataset data(TensorDataset(ramp(1, 2).unsqueeze(0), tensor({7})), on_image(both));
  EXPECT_EQ(values(data.get(0)[0]), (Values{2, 4}));
  EXPECT_EQ(data.get(0)[1].item<int64_t>(), 7);
}

TEST(Transforms, AugmentationDoesNotDependOnWorkers) {
  const Tensor images = randint(0, 256, {12, 3, 8, 8}, {.dtype = kUInt8});
  const auto run_with = [&](int workers) {
    const Compose augment({RandAugment(), RandomCrop(8, {.padding = 2}), RandomHorizontalFlip(),
                           ConvertImageDtype(), Normalize({0.5, 0.5, 0.5}, {0.2, 0.2, 0.2}),
                           RandomErasing()});
    const LabeledImages data(images, arange(12), augment);
    DataLoader loader(data, {.batch_size = 5, .shuffle = true, .num_workers = workers, .seed = 4});
    Values all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto& batch : loader)
        for (const double value : values(batch[0])) all.push_back(value);
    return all;
  };
  EXPECT_EQ(run_with(0), run_with(2));
}

}  // namespace
}  // namespace tensora::testing
