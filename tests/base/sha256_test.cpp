#include "tensora/base/sha256.h"

#include <gtest/gtest.h>

namespace tensora {
namespace {

std::string sha256(std::string_view text) {
  Sha256 sum;
  sum.update(text);
  return sum.hex();
}

// The standard's own examples.
TEST(Sha256, KnownSums) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PartsOfAnySizeGiveTheSame) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t step : {1U, 3U, 55U, 56U, 63U, 64U, 65U, 128U}) {
    Sha256 sum;
    for (size_t at = 0; at < text.size(); at += step)
      sum.update(std::string_view(text).substr(at, step));
    EXPECT_EQ(sum.hex(), sha256(text)) << step;
    EXPECT_EQ(sum.hex(), sha256(text)) << "asking changes nothing";
  }
}

}  // namespace
}  // namespace tensora
