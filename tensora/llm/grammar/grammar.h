#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::llm {

/// A context-free grammar over bytes, compiled from GBNF:
///   root ::= "yes" | "no" [.!]{0,3}   # alternatives, classes, repetition ? * + {m,n}, ( )
/// The sentences are those of the rule `root`. A character is a code point of UTF-8; classes and
/// `.` match whole characters, which may reach across tokens. Escapes: \n \r \t \\ \" \[ \] \- \^,
/// \xNN, \uNNNN, \UNNNNNNNN. As in llama.cpp, <think> is the token of that text, <[1000]> the token
/// of that id, and !<think> any one token but that (control tokens are not among them). A grammar
/// is constant once it is parsed.
class Grammar {
 public:
  /// Throws, with line and column, for what is no grammar, for left recursion, for rules that are
  /// missing or there twice, and for grammars that are too large or nested too deeply.
  static std::shared_ptr<const Grammar> parse(std::string_view text);

  /// What the rules are compiled to: a program for a machine with a stack of return addresses.
  struct Instruction {
    enum class Kind : uint8_t {
      byte,    // consumes a byte from `low` to `high`
      token,   // consumes a whole token, that of the reference number `target`
      split,   // goes on here and at `target`
      jump,    // goes on at `target`
      call,    // goes on at `target`, and behind this one when that returns
      finish,  // returns
    };
    Kind kind;
    uint8_t low = 0, high = 0;
    int32_t target = 0;
  };
  /// A token that a grammar names.
  struct TokenReference {
    std::string text = {};  // with its angle brackets; empty: `id` is given
    int32_t id = -1;
    bool negated = false;
  };
  const std::vector<Instruction>& program() const { return program_; }
  const std::vector<TokenReference>& tokens() const { return tokens_; }
  int32_t start() const { return start_; }  // of the rule `root`

 private:
  friend class GrammarCompiler;
  Grammar() = default;
  std::vector<Instruction> program_;
  std::vector<TokenReference> tokens_;
  int32_t start_ = 0;
};

}  // namespace tensora::llm
