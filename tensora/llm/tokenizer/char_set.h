#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tensora::llm {

/// A set of code points, as ranges in order. One number beyond Unicode, kInvalid, stands for a byte
/// that is not UTF-8; it counts as a code point that is not assigned.
class CharSet {
 public:
  static constexpr uint32_t kInvalid = 0x110000;
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CharSet() = default;
  CharSet(uint32_t first, uint32_t last) : ranges_{{first, last}} {}
  /// \p{name}: a general category ("Lu") or a group of them ("L"). Throws for other names.
  static CharSet property(std::string_view name);
  /// \s, \d and \w, as Oniguruma has them, which Hugging Face's tokenizers use.
  static CharSet spaces();
  static CharSet digits() { return property("Nd"); }
  static CharSet word();

  CharSet& add(const CharSet& other);
  CharSet complement() const;
  /// With the other case of every ASCII letter, and the two signs (ſ, K) that are one of them.
  CharSet any_case() const;
  bool meets(const CharSet& other) const;

  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const CharSet&) const = default;

 private:
  void normalize();

  std::vector<Range> ranges_;
};

}  // namespace tensora::llm
