#include "tensora/serve/answer_grammar.h"

#include <algorithm>
#include <map>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/grammar/json_schema.h"
#include "tensora/llm/grammar/json_schema_parts.h"
#include "tensora/llm/grammar/json_schema_rules.h"
#include "tensora/serve/api_error.h"
#include "tensora/serve/tag_parameters.h"

namespace tensora::serve {
namespace {

using Part = ToolFormat::Part;

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> points;
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    points.push_back(point.code);
    text.remove_prefix(static_cast<size_t>(point.length));
  }
  return points;
}

class Builder {
 public:
  Builder(const AnswerShape& shape, const llm::Tokenizer& tokenizer)
      : shape_(shape), tokenizer_(tokenizer) {
    rules_.add("blank", R"([ \t\r\n]{0,20})");
  }

  std::string build() {
    const std::string first = reasoning(), rest = body();
    return concat("root ::= ", first, " (", rest, ")\n", rules_.text());
  }

 private:
  // A text of the format: the token of that name where there is one that has no other spelling.
  std::string literal(const std::string& text) const {
    const auto token = tokenizer_.find(text);
    return token && tokenizer_.is_control(*token) ? concat("<[", *token, "]>")
                                                  : llm::gbnf_text(text);
  }
  bool is_control(const std::string& text) const {
    const auto token = tokenizer_.find(text);
    return token && tokenizer_.is_control(*token);
  }

  // Text up to the first `marker`, and then `next`; where it `may_end`, perhaps without them. The
  // rules are the states of Knuth, Morris and Pratt's automaton: a rule for each number of letters
  // of the marker that stand at the end of the text so far. Each ends in a call of another, which
  // the grammar's compiler makes a jump.
  std::string until(const std::string& marker, const std::string& next, bool may_end) {
    if (is_control(marker)) {
      const std::string found = concat(literal(marker), " ", next);
      return rules_.add(concat("any* ", may_end ? concat("(", found, ")?") : found));
    }
    const std::vector<uint32_t> letters = code_points(marker);
    std::vector<std::string> names;
    for (size_t i = 0; i < letters.size(); ++i) names.push_back(rules_.fresh_name());
    // The longest beginning of the marker that ends a text of `length` letters and `letter`.
    const auto step = [&](size_t length, uint32_t letter) {
      std::vector<uint32_t> text(letters.begin(), letters.begin() + static_cast<ptrdiff_t>(length));
      text.push_back(letter);
      size_t fit = std::min(text.size(), letters.size());
      while (!std::equal(text.end() - static_cast<ptrdiff_t>(fit), text.end(), letters.begin()))
        --fit;
      return fit;
    };
    for (size_t state = 0; state < letters.size(); ++state) {
      std::string body = may_end ? R"("" | )" : "";
      std::vector<std::pair<uint32_t, uint32_t>> known;
      for (const uint32_t letter : letters) {
        if (std::find(known.begin(), known.end(), std::pair(letter, letter)) != known.end())
          continue;
        known.emplace_back(letter, letter);
        const size_t to = step(state, letter);
        body += concat(llm::gbnf_class({{letter, letter}}), " ",
                       to == letters.size() ? next : names[to], " | ");
      }
      rules_.add(names[state], concat(body, llm::gbnf_class_except(known), " ", names[0]));
    }
    return names[0];
  }

  std::string reasoning() {
    if (!shape_.reasoning.is_known()) return "";
    const std::string thought = until(shape_.reasoning.end, "blank", false);
    if (shape_.is_thinking) return thought;
    return concat("(blank ", literal(shape_.reasoning.begin), " ", thought, ")?");
  }

  std::string text_schema() {
    return add_schema(shape_.schema, "response_format.json_schema.schema");
  }

  std::string body() {
    const bool has_schema = !shape_.schema.empty();
    if (shape_.tools.empty()) return has_schema ? text_schema() : rules_.add("any*");
    add_tools();
    if (shape_.must_call) return "blank calls";
    if (has_schema) return concat("blank calls | ", text_schema());
    if (shape_.format.is_bare) {
      const std::string& lead = shape_.format.lead;
      return concat("blank calls | ", bare_text(),
                    lead.empty() ? "" : concat(" (", literal(lead), " blank call blank)?"));
    }
    return until(shape_.format.marker(), "rest-of-calls", true);
  }

  // Text that does not begin like a call without a marker.
  std::string bare_text() {
    return rules_.add(
        R"("" | [^{ \t\r\n] any* | [ \t\r\n]+ ([^{ \t\r\n] any*)? | )"
        R"([ \t\r\n]* "{" [ \t\r\n]* ([^" \t\r\n] any* | "\"" ([^n] any* | "n" ([^a] any* | )"
        R"("a" ([^m] any* | "m" ([^e] any* | "e" ([^"] any*)?)?)?)?)?)?)");
  }

  // The parts of a call from number `from` on, in which tool and arguments go together.
  std::string call_parts(const ToolFormat::Parts& parts, size_t from) {
    std::string out, alternatives;
    size_t name = 0, arguments = parts.size();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].kind == Part::Kind::name) name = i;
      if (parts[i].kind == Part::Kind::arguments || parts[i].kind == Part::Kind::tags)
        arguments = i;
    }
    const auto plain = [&](size_t begin, size_t end) {
      std::string row;
      for (size_t i = begin; i < end; ++i)
        row += concat(" ", parts[i].kind == Part::Kind::space ? "space" : literal(parts[i].text));
      return row;
    };
    const std::string middle = rules_.add(concat(R"("")", plain(name + 1, arguments)));
    for (const auto& [tool, schema] : tools_)
      alternatives += concat(alternatives.empty() ? "" : " | ", llm::gbnf_text(tool->name), " ",
                             middle, " ", schema);
    return concat(R"("")", plain(from, name), " (", alternatives, ")",
                  plain(arguments + 1, parts.size()));
  }

  // <parameter=name>, value, </parameter>, for each of the parameters.
  std::string tags(const Tool& tool) {
    std::string row = "space";
    for (const TagParameter& parameter : tag_parameters(tool)) {
      std::string value;
      if (!parameter.is_text) {
        value = add_schema(parameter.schema, concat(tool.path, ".properties.", parameter.name));
      } else if (parameter.choices.empty()) {
        if (tag_text_.empty()) tag_text_ = until(kTagEnd, R"("")", false);
        value = tag_text_;
      } else {
        for (const std::string& choice : parameter.choices)
          value += concat(value.empty() ? "(" : " | ", llm::gbnf_text(choice));
        value += ")";
      }
      const bool has_end = parameter.is_text && parameter.choices.empty();
      const std::string tag =
          concat(llm::gbnf_text(concat("<parameter=", parameter.name, ">\n")), " ", value, " ",
                 has_end ? "" : llm::gbnf_text(kTagEnd), " space");
      row += concat(" ", rules_.add(tag), parameter.is_required ? "" : "?");
    }
    return rules_.add(row);
  }

  std::string add_schema(const std::string& schema, const std::string& path) {
    try {
      return llm::add_json_schema(rules_, schema);
    } catch (const Error& error) {
      refuse_schema(error.what(), path);
    }
  }

  void add_tools() {
    rules_.primitive("space");
    const auto& parts = shape_.format.call;
    const bool has_tags = std::any_of(
        parts.begin(), parts.end(), [](const Part& part) { return part.kind == Part::Kind::tags; });
    std::map<std::string, std::string> known;  // tools with equal schemas share their rules
    for (const Tool& tool : shape_.tools) {
      const auto [found, added] = known.try_emplace(tool.schema);
      if (added) found->second = has_tags ? tags(tool) : add_schema(tool.schema, tool.path);
      tools_.emplace_back(&tool, found->second);
    }
    const ToolFormat& format = shape_.format;
    const auto row = [&](const ToolFormat::Parts& parts, size_t from) {
      std::string out;
      for (size_t i = from; i < parts.size(); ++i)
        out += concat(" ", parts[i].kind == Part::Kind::space ? "space" : literal(parts[i].text));
      return out;
    };
    rules_.add("call", call_parts(format.call, 0));
    const std::string separator = format.separator.empty() ? "space"
                                  : format.separator == "\n"
                                      ? R"("\n")"
                                      : concat(llm::gbnf_text(format.separator), " space");
    const std::string more =
        format.has_several && shape_.may_repeat ? concat("(", separator, " call)*") : "";
    const std::string end = concat(more, row(format.section_end, 0), " blank");
    // The marker stands before the rest where text may come first.
    if (format.section_begin.empty()) {
      if (!format.is_bare) {
        rules_.add("rest-of-call", call_parts(format.call, 1));
        rules_.add("rest-of-calls", concat("rest-of-call ", end));
      }
      const std::string lead =
          format.lead.empty() ? "" : concat("(", literal(format.lead), " blank)? ");
      rules_.add("calls", concat(lead, "call ", end));
    } else {
      rules_.add("rest-of-calls", concat(row(format.section_begin, 1), " call ", end));
      rules_.add("calls", concat(literal(format.marker()), " rest-of-calls"));
    }
  }

  const AnswerShape& shape_;
  const llm::Tokenizer& tokenizer_;
  llm::JsonSchemaRules rules_;
  std::vector<std::pair<const Tool*, std::string>> tools_;  // with the rule of the arguments
  std::string tag_text_;                                    // rule of a text up to kTagEnd
};

}  // namespace

std::string answer_grammar(const AnswerShape& shape, const llm::Tokenizer& tokenizer) {
  return concat(Builder(shape, tokenizer).build(), "any ::= [\\x00-\\U0010FFFF]\n");
}

void refuse_schema(std::string_view problem, const std::string& path) {
  constexpr std::string_view kPrefix = "json schema: ";
  if (problem.starts_with(kPrefix)) problem.remove_prefix(kPrefix.size());
  // A grammar was made of the schema; its lines and rules say nothing to the client.
  constexpr std::string_view kGrammar = "grammar: ", kLine = "line ";
  if (problem.starts_with(kGrammar)) {
    problem.remove_prefix(kGrammar.size());
    const size_t colon = problem.find(": ");
    if (problem.starts_with(kLine) && colon != problem.npos) problem.remove_prefix(colon + 2);
    if (problem.find("left-recursive") != problem.npos)
      problem = "the keyword $ref leads back to where it stands";
  }
  std::string where = path;
  if (problem.starts_with("#")) {
    const size_t end = std::min(problem.find(": "), problem.size());
    for (const char c : problem.substr(1, end - 1)) where += c == '/' ? '.' : c;
    problem.remove_prefix(std::min(end + 2, problem.size()));
  }
  throw ApiError(400, concat(where, ": ", problem), where, "unsupported_schema");
}

}  // namespace tensora::serve
