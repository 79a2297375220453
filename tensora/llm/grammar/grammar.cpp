#include "tensora/llm/grammar/grammar.h"

#include <algorithm>
#include <array>
#include <span>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/grammar/grammar_syntax.h"

namespace tensora::llm {
namespace {

constexpr size_t kMaxProgram = 1'000'000;

using Node = GrammarSyntax::Node;
using Instruction = Grammar::Instruction;
using Kind = Instruction::Kind;

struct ByteRanges {
  std::array<std::pair<uint8_t, uint8_t>, 4> bytes;
  size_t length = 0;
};

// Cuts a range of code points into pieces whose UTF-8 forms are products of byte ranges: all bytes
// but the first that differs run from 80 to BF.
void utf8_ranges(uint32_t from, uint32_t to, std::vector<ByteRanges>& out) {
  constexpr std::array<uint32_t, 4> kLast = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  for (const uint32_t last : kLast)
    if (from <= last && to > last) {
      utf8_ranges(from, last, out);
      return utf8_ranges(last + 1, to, out);
    }
  if (from < 0xD800 && to >= 0xD800) {
    utf8_ranges(from, 0xD7FF, out);
    if (to > 0xDFFF) utf8_ranges(0xE000, to, out);
    return;
  }
  if (from >= 0xD800 && from <= 0xDFFF) {
    if (to > 0xDFFF) utf8_ranges(0xE000, to, out);
    return;
  }
  const int tail = from <= 0x7F ? 0 : from <= 0x7FF ? 1 : from <= 0xFFFF ? 2 : 3;
  for (int i = 1; i <= tail; ++i) {
    const uint32_t mask = (1u << (6 * i)) - 1;
    if ((from & ~mask) == (to & ~mask)) continue;
    if ((from & mask) != 0) {
      utf8_ranges(from, from | mask, out);
      return utf8_ranges((from | mask) + 1, to, out);
    }
    if ((to & mask) != mask) {
      utf8_ranges(from, (to & ~mask) - 1, out);
      return utf8_ranges(to & ~mask, to, out);
    }
  }
  std::string low, high;
  append_utf8(low, from);
  append_utf8(high, to);
  ByteRanges piece;
  for (; piece.length < low.size(); ++piece.length)
    piece.bytes[piece.length] = {static_cast<uint8_t>(low[piece.length]),
                                 static_cast<uint8_t>(high[piece.length])};
  out.push_back(piece);
}

}  // namespace

class GrammarCompiler {
 public:
  explicit GrammarCompiler(const GrammarSyntax& syntax) : entries_(syntax.rules.size(), -1) {
    for (size_t i = 0; i < syntax.rules.size(); ++i) {
      entries_[i] = here();
      emit(syntax.rules[i].body);
      add({.kind = Kind::finish});
    }
    for (const auto& [place, rule] : calls_) program_[place].target = entries_[rule];
    for (size_t i = 0; i < program_.size(); ++i) shorten(i);
  }

  std::shared_ptr<const Grammar> grammar(size_t root) {
    std::shared_ptr<Grammar> out(new Grammar);
    out->program_ = std::move(program_);
    out->tokens_ = std::move(tokens_);
    out->start_ = entries_[root];
    return out;
  }

 private:
  int32_t here() const { return static_cast<int32_t>(program_.size()); }

  size_t add(Instruction instruction) {
    check(program_.size() < kMaxProgram, "grammar: too large: its repetitions unfold to more than ",
          kMaxProgram, " steps");
    program_.push_back(instruction);
    return program_.size() - 1;
  }

  void emit(const Node& node) {
    switch (node.kind) {
      case Node::Kind::text:
        for (const char c : node.text) emit_byte(c);
        return;
      case Node::Kind::ranges:
        return emit_ranges(node);
      case Node::Kind::token:
        add({.kind = Kind::token, .target = static_cast<int32_t>(tokens_.size())});
        tokens_.push_back(node.token);
        return;
      case Node::Kind::rule:
        calls_.emplace_back(add({.kind = Kind::call}), node.rule);
        return;
      case Node::Kind::sequence:
        for (const Node& part : node.parts) emit(part);
        return;
      case Node::Kind::choice:
        return emit_alternatives(node);
      case Node::Kind::repeat:
        return emit_repeat(node);
    }
  }

  template <class Emit>
  void emit_choice(size_t count, const Emit& emit_one) {
    std::vector<size_t> ends;
    for (size_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      const size_t split = last ? 0 : add({.kind = Kind::split});
      emit_one(i);
      if (last) break;
      ends.push_back(add({.kind = Kind::jump}));
      program_[split].target = here();
    }
    for (const size_t end : ends) program_[end].target = here();
  }

  // An alternative: a text that it begins with, and what follows.
  struct Alternative {
    std::string_view text = {};
    std::span<const Node> rest = {};
  };

  static Alternative alternative(const Node& node) {
    if (node.kind == Node::Kind::text) return {.text = node.text};
    if (node.kind != Node::Kind::sequence) return {.rest = {&node, 1}};
    const std::span<const Node> parts = node.parts;
    if (parts.empty() || parts[0].kind != Node::Kind::text) return {.rest = parts};
    return {.text = parts[0].text, .rest = parts.subspan(1)};
  }

  // As a tree of the texts that they begin with, so that many alternatives do not become as many
  // ways to go on.
  void emit_alternatives(const Node& node) {
    std::vector<Alternative> all;
    for (const Node& part : node.parts) all.push_back(alternative(part));
    std::stable_sort(all.begin(), all.end(),
                     [](const Alternative& a, const Alternative& b) { return a.text < b.text; });
    emit_tree(all, 0, 0);
  }

  // Alternatives in the order of their texts, which are equal in the first `depth` bytes.
  void emit_tree(std::span<const Alternative> all, size_t depth, int level) {
    constexpr int kMaxLevel = 500;  // of recursion
    // What the first and the last share, all share.
    const std::string_view first = all.front().text, last = all.back().text;
    for (; depth < first.size() && depth < last.size() && first[depth] == last[depth]; ++depth)
      emit_byte(first[depth]);
    std::vector<std::span<const Alternative>> groups;
    for (size_t i = 0; i < all.size();) {
      size_t end = i + 1;
      if (all[i].text.size() > depth && level < kMaxLevel)
        while (end < all.size() && all[end].text[depth] == all[i].text[depth]) ++end;
      groups.push_back(all.subspan(i, end - i));
      i = end;
    }
    emit_choice(groups.size(), [&](size_t i) {
      if (groups[i].size() > 1) return emit_tree(groups[i], depth, level + 1);
      for (const char c : groups[i][0].text.substr(depth)) emit_byte(c);
      for (const Node& part : groups[i][0].rest) emit(part);
    });
  }

  void emit_byte(char c) {
    const auto byte = static_cast<uint8_t>(c);
    add({.kind = Kind::byte, .low = byte, .high = byte});
  }

  void emit_ranges(const Node& node) {
    std::vector<ByteRanges> pieces;
    for (const auto& [from, to] : node.ranges) utf8_ranges(from, to, pieces);
    emit_choice(pieces.size(), [&](size_t i) {
      for (size_t b = 0; b < pieces[i].length; ++b)
        add({.kind = Kind::byte,
             .low = pieces[i].bytes[b].first,
             .high = pieces[i].bytes[b].second});
    });
  }

  // What is repeated is written once, as a rule of its own, if it is not small.
  void emit_repeat(const Node& node) {
    const Node& part = node.parts[0];
    const bool small =
        part.kind == Node::Kind::rule || (part.kind == Node::Kind::text && part.text.size() == 1);
    const int64_t copies = node.most < 0 ? node.least + 1 : node.most;
    int32_t entry = -1;
    if (!small && copies > 1) {
      const size_t over = add({.kind = Kind::jump});
      entry = here();
      emit(part);
      add({.kind = Kind::finish});
      program_[over].target = here();
    }
    const auto emit_copy = [&] {
      if (entry < 0) return emit(part);
      add({.kind = Kind::call, .target = entry});
    };
    for (int64_t i = 0; i < node.least; ++i) emit_copy();
    if (node.most < 0) {
      const size_t loop = add({.kind = Kind::split});
      emit_copy();
      add({.kind = Kind::jump, .target = static_cast<int32_t>(loop)});
      program_[loop].target = here();
      return;
    }
    std::vector<size_t> exits;
    for (int64_t i = node.least; i < node.most; ++i) {
      exits.push_back(add({.kind = Kind::split}));
      emit_copy();
    }
    for (const size_t exit : exits) program_[exit].target = here();
  }

  // A call with nothing left to do behind it becomes a jump, so that lists written by recursion do
  // not pile up return addresses.
  void shorten(size_t place) {
    if (program_[place].kind != Kind::call) return;
    size_t next = place + 1;
    for (int hops = 0; program_[next].kind == Kind::jump && hops < 100; ++hops)
      next = static_cast<size_t>(program_[next].target);
    if (program_[next].kind == Kind::finish) program_[place].kind = Kind::jump;
  }

  std::vector<Instruction> program_;
  std::vector<Grammar::TokenReference> tokens_;
  std::vector<int32_t> entries_;
  std::vector<std::pair<size_t, size_t>> calls_;  // place, rule
};

std::shared_ptr<const Grammar> Grammar::parse(std::string_view text) {
  const GrammarSyntax syntax = parse_grammar(text);
  refuse_left_recursion(syntax, text);
  const auto root = std::find_if(syntax.rules.begin(), syntax.rules.end(),
                                 [](const auto& rule) { return rule.name == "root"; });
  return GrammarCompiler(syntax).grammar(static_cast<size_t>(root - syntax.rules.begin()));
}

}  // namespace tensora::llm
