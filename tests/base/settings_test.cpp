#include "tensora/base/settings.h"

#include <cstdlib>

#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::error_of;

constexpr const char* kName = "TENSORA_TEST_SETTING";

/// An environment variable for a scope.
class Variable {
 public:
  explicit Variable(const char* value) { setenv(kName, value, 1); }
  ~Variable() { unsetenv(kName); }
};

size_t fruit() { return choice_setting(kName, {"apple", "pear", "plum"}, 1); }
uint64_t bytes() { return bytes_setting(kName, 1000, 7); }

TEST(Settings, WhatIsNotSetOrEmptyIsTheDefault) {
  EXPECT_EQ(fruit(), 1u);
  EXPECT_TRUE(switch_setting(kName, true));
  EXPECT_EQ(number_setting(kName, 1, 9, 4), 4);
  EXPECT_EQ(bytes(), 7u);
  const Variable empty("");
  EXPECT_EQ(fruit(), 1u);
  EXPECT_FALSE(switch_setting(kName, false));
  EXPECT_EQ(number_setting(kName, 1, 9, 4), 4);
  EXPECT_EQ(bytes(), 7u);
}

TEST(Settings, AnUnknownValueIsAnErrorThatSaysWhatIsAccepted) {
  const Variable odd("quince");
  EXPECT_EQ(error_of([] { fruit(); }),
            "TENSORA_TEST_SETTING: expected apple, pear or plum, got \"quince\"");
  EXPECT_EQ(error_of([] { switch_setting(kName, true); }),
            "TENSORA_TEST_SETTING: expected 0 or 1, got \"quince\"");
  EXPECT_EQ(error_of([] { number_setting(kName, 1, 9, 4); }),
            "TENSORA_TEST_SETTING: expected a number from 1 to 9, got \"quince\"");
  EXPECT_EQ(error_of([] { bytes(); }),
            "TENSORA_TEST_SETTING: expected a number of bytes such as 1048576, 1024K, 512M or 2G, "
            "or a share such as 25%, got \"quince\"");
}

TEST(Settings, ValuesAreRead) {
  const auto with = [](const char* value, auto body) {
    const Variable set(value);
    return body();
  };
  EXPECT_EQ(with("plum", fruit), 2u);
  EXPECT_TRUE(with("1", [] { return switch_setting(kName, false); }));
  EXPECT_EQ(with("9", [] { return number_setting(kName, 1, 9, 4); }), 9);
  EXPECT_EQ(with("123", bytes), 123u);
  EXPECT_EQ(with("3K", bytes), 3072u);
  EXPECT_EQ(with("2G", bytes), uint64_t{2} << 30);
  EXPECT_EQ(with("25%", bytes), 250u);
  EXPECT_EQ(with("0", bytes), 0u);
  const auto number = [] { return number_setting(kName, 1, 9, 4); };
  for (const char* wrong : {"0", "10", "3x", " 3", "99999999999999999999"})
    EXPECT_NE(error_of([&] { with(wrong, number); }), "") << wrong;
  for (const char* wrong : {"-1", "K", "%", "101%", "1T", "99999999999G"})
    EXPECT_NE(error_of([&] { with(wrong, bytes); }), "") << wrong;
}

}  // namespace
}  // namespace tensora
