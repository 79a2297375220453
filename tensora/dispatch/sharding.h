#pragma once

// How ops may be divided among ranks or devices. Each room says it for its ops where it registers
// them; code that divides calls (tensora/distributed) reads it.

#include <string_view>

#include "tensora/dispatch/op.h"

// Note [Shard rules]
// A rule names the dims of an op's inputs and outputs by letters. Whoever divides a letter divides
// every dim that has it, and each part of the op runs on its part of the inputs. A letter that an
// output lacks is summed over: the outputs of the parts are partial, their sum is the result. A dim
// without a letter must be whole everywhere.
//   "*ij,*jk->*ik"    a batch of matrix products; * stands for any number of leading dims, which
//                     broadcast
//   "i.->i"           . is a dim that must be whole
//   "n~,~->n~"        ~ is any number of trailing dims that must be whole
//   "+ik,ij,jk->ik"   + marks an input that is added to the sum: if j is divided, one part adds it
// The last term of a list stands for all further inputs or outputs. Dims of size 1 that broadcast
// have no letter. A word behind the letters names an attribute with the output's sizes.
//
// Rules that depend on attributes name a family and the attribute:
//   "along dim"               inputs and outputs have the same dims, of which `dim` must be whole
//   "reduce dim"              `dim` of the input, none or an empty list: all, is missing in the
//                             output, or has size 1 there; it must be whole
//   "reduce dim by maximum"   as before, but `dim` may be divided, if the results of the parts are
//                             combined by sum, product, maximum or minimum
//   "stack dim"               `dim` of the output is new
//   "rows normalized_shape"   the last dims, as many as the attribute has, must be whole
//   "pad"                     dims whose `before` or `after` is not 0 must be whole
//   "view size"               reshape: `size` has the sizes of the output
//   "expand size"             expand: the same
//   "strides sizes"           a view by the rule of views below; `sizes` has those of the output
//   "definition"              the op's definition in other ops has rules that suit better
//   "writes"                  the op writes into its inputs without being called in place; it
//                             cannot run on copies of them, so it is refused
// Words before a rule: "linear" (in all inputs together: partial inputs give partial outputs),
// "nonempty" (the op needs at least one element in each part).
//
// Two kinds of ops have rules without saying so: pointwise ops, and views whose attributes are
// valid for a part of a dim that they leave as it is (Note [Rules of views] in shard_rule.h). An op
// without a rule is slower when its inputs are divided, never wrong: its definition runs, or the
// inputs are gathered.

namespace tensora {

/// A shard rule, checked when the program is compiled.
class ShardText {
 public:
  consteval ShardText(const char* text) : text_(text) {
    if (!is_known(text_)) throw "unknown form of a shard rule; see Note [Shard rules]";
  }
  constexpr std::string_view text() const { return text_; }

 private:
  static constexpr size_t kNone = std::string_view::npos;
  static constexpr std::string_view kWords[] = {"along",   "reduce",    "stack",  "rows",
                                                "pad",     "view",      "expand", "writes",
                                                "strides", "definition"};

  static constexpr bool take(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word) || (text.size() > word.size() && text[word.size()] != ' '))
      return false;
    text.remove_prefix(text.size() == word.size() ? word.size() : word.size() + 1);
    return true;
  }
  static constexpr bool is_known(std::string_view text) {
    while (take(text, "linear") || take(text, "nonempty")) continue;
    for (const std::string_view word : kWords)
      if (take(text, word)) return true;
    const size_t arrow = text.find("->");
    if (arrow == kNone) return false;
    for (const char c : text.substr(0, text.find(' ')))
      if (!((c >= 'a' && c <= 'z') || std::string_view("*~+.,->").find(c) != kNone)) return false;
    return text.find("->", arrow + 2) == kNone;
  }

  std::string_view text_;
};

/// A rule that depends on which inputs a call has, or on its attributes; empty: there is none for
/// this call. What it returns has the form of a ShardText.
template <class Attrs>
using ShardChooser = std::string_view (*)(Args inputs, const Attrs& attrs);

/// What rooms say about their ops.
struct ShardEntry {
  using AnyChooser = void (*)();
  std::string_view text = {};
  AnyChooser chooser = nullptr;
  std::string_view (*call)(AnyChooser chooser, Args inputs, const void* attrs) = nullptr;

  std::string_view of(Args inputs, const void* attrs) const {
    return chooser ? call(chooser, inputs, attrs) : text;
  }
};

namespace detail {
void add_shard_entry(const OpBase& op, const ShardEntry& entry);
}  // namespace detail

/// Says how an op may be divided.
inline void shard_by(const OpBase& op, ShardText rule) {
  detail::add_shard_entry(op, {.text = rule.text()});
}
template <class Attrs>
void shard_by(const OpDef<Attrs>& op, std::type_identity_t<ShardChooser<Attrs>> chooser) {
  const auto call = [](ShardEntry::AnyChooser any, Args inputs, const void* attrs) {
    return reinterpret_cast<ShardChooser<Attrs>>(any)(inputs, *static_cast<const Attrs*>(attrs));
  };
  detail::add_shard_entry(
      op, {.chooser = reinterpret_cast<ShardEntry::AnyChooser>(chooser), .call = call});
}

/// What the op's room said; null if nothing.
const ShardEntry* shard_entry(const OpBase& op);

}  // namespace tensora
