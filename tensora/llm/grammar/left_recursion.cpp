#include <utility>

#include "tensora/base/check.h"
#include "tensora/llm/grammar/grammar_syntax.h"

namespace tensora::llm {
namespace {

using Node = GrammarSyntax::Node;

class Analysis {
 public:
  // Rules that match the empty text: when one is found, the rules that use it are looked at again.
  explicit Analysis(const GrammarSyntax& syntax)
      : empty_(syntax.rules.size()), users_(syntax.rules.size()) {
    std::vector<size_t> open;
    for (size_t i = 0; i < empty_.size(); ++i) {
      note_uses(syntax.rules[i].body, i);
      open.push_back(i);
    }
    while (!open.empty()) {
      const size_t rule = open.back();
      open.pop_back();
      if (empty_[rule] || !may_be_empty(syntax.rules[rule].body)) continue;
      empty_[rule] = true;
      open.insert(open.end(), users_[rule].begin(), users_[rule].end());
    }
  }

  bool may_be_empty(const Node& node) const {
    const auto all = [&] {
      for (const Node& part : node.parts)
        if (!may_be_empty(part)) return false;
      return true;
    };
    switch (node.kind) {
      case Node::Kind::text:
        return node.text.empty();
      case Node::Kind::ranges:
      case Node::Kind::token:
        return false;
      case Node::Kind::rule:
        return empty_[node.rule];
      case Node::Kind::sequence:
        return all();
      case Node::Kind::repeat:
        return node.least == 0 || all();
      case Node::Kind::choice:
        break;
    }
    for (const Node& part : node.parts)
      if (may_be_empty(part)) return true;
    return false;
  }

  // The rules that can be entered before anything is read.
  void first_rules(const Node& node, std::vector<size_t>& out) const {
    if (node.kind == Node::Kind::rule) out.push_back(node.rule);
    for (const Node& part : node.parts) {
      first_rules(part, out);
      if (node.kind == Node::Kind::sequence && !may_be_empty(part)) return;
    }
  }

 private:
  void note_uses(const Node& node, size_t user) {
    if (node.kind == Node::Kind::rule) users_[node.rule].push_back(user);
    for (const Node& part : node.parts) note_uses(part, user);
  }

  std::vector<char> empty_;
  std::vector<std::vector<size_t>> users_;
};

}  // namespace

void refuse_left_recursion(const GrammarSyntax& syntax, std::string_view text) {
  const Analysis analysis(syntax);
  enum Colour : char { unseen, entered, left };
  std::vector<char> colours(syntax.rules.size(), unseen);
  struct Visit {
    size_t rule;
    std::vector<size_t> next;
  };
  std::vector<Visit> path;  // no recursion: chains of rules can be long
  const auto enter = [&](size_t rule) {
    colours[rule] = entered;
    path.push_back({rule, {}});
    analysis.first_rules(syntax.rules[rule].body, path.back().next);
  };
  for (size_t start = 0; start < syntax.rules.size(); ++start) {
    if (colours[start] == unseen) enter(start);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next.empty()) {
        colours[visit.rule] = left;
        path.pop_back();
        continue;
      }
      const size_t next = visit.next.back();
      visit.next.pop_back();
      const GrammarSyntax::Rule& rule = syntax.rules[next];
      if (colours[next] == entered)
        fail("grammar: ", place_in(text, rule.position), ": rule ", rule.name,
             " is left-recursive: it comes back to itself before it has read anything");
      if (colours[next] == unseen) enter(next);
    }
  }
}

}  // namespace tensora::llm
