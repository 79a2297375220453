#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::llm::jinja {

/// Where something stands in a template, from 1 on; columns count bytes.
struct Place {
  int line = 1;
  int column = 1;
};

struct Token {
  enum class Kind : uint8_t {
    data,
    block_begin,
    block_end,
    print_begin,
    print_end,
    name,
    text,
    integer,
    real,
    sign,
    end
  };
  Kind kind = Kind::end;
  std::string text = {};  // of a text: what it stands for
  Place place = {};

  bool is_sign(std::string_view sign) const { return kind == Kind::sign && text == sign; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
};

/// Cuts a template into tokens, with blanks removed as Jinja does with trim_blocks and
/// lstrip_blocks. Throws, with line and column, for what is no token.
std::vector<Token> tokenize(std::string_view source);

/// Throws an Error that begins with "template: line 3, column 7: ".
[[noreturn]] void fail_at(const Place& place, const std::string& message);

}  // namespace tensora::llm::jinja
