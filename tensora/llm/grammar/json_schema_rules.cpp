#include "tensora/llm/grammar/json_schema_rules.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/grammar/json_schema_parts.h"

namespace tensora::llm {
namespace {

constexpr size_t kMaxRules = 20'000;

// Rules that any schema may use, with what they need themselves.
struct Primitive {
  const char* name;
  const char* body;
  std::vector<const char*> needs;
};

const std::vector<Primitive>& primitives() {
  static const std::vector<Primitive> all = {
      {"space", R"( | " " | "\n" [ \t]{0,20})", {}},
      {"hex", "[0-9a-fA-F]", {}},
      {"char",
       R"([^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" ([0-9a-ce-fA-CE-F] hex{3} | )"
       R"([dD] [0-7] hex{2} | [dD] [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2})))",
       {"hex"}},
      {"string", R"("\"" char* "\"")", {"char"}},
      {"number",
       R"("-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?)",
       {}},
      {"integer", R"("0" | "-"? [1-9] [0-9]{0,17})", {}},
      {"boolean", R"("true" | "false")", {}},
      {"null", R"("null")", {}},
      {"value",
       "object | array | string | number | boolean | null",
       {"object", "array", "string", "number", "boolean", "null"}},
      {"pair", R"(string space ":" space value space)", {"string", "space", "value"}},
      {"object", R"("{" space (pair ("," space pair)*)? "}")", {"space", "pair"}},
      {"array", R"("[" space (value space ("," space value space)*)? "]")", {"space", "value"}},
      // As long as each month is: the 29th of February in leap years only.
      {"leap-year",
       R"([0-9]{2} ("0" [48] | [2468] [048] | [13579] [26]) | ([02468] [048] | [13579] [26]) "00")",
       {}},
      {"date",
       R"([0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | )"
       R"(("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | )"
       R"("02-" ("0" [1-9] | "1" [0-9] | "2" [0-8])) | leap-year "-02-29")",
       {"leap-year"}},
      {"time",
       R"(([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? )"
       R"(("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]))",
       {}},
      {"date-time", R"(date "T" time)", {"date", "time"}},
      // RFC 3986, with a host where there is a //.
      {"uri-char", R"([a-zA-Z0-9._~!$&'()*+,;=:@-] | "%" hex{2})", {"hex"}},
      {"uri",
       R"([a-zA-Z] [a-zA-Z0-9+.-]{0,30} ":" ("//" ([a-zA-Z0-9._~!$&'()*+,;=:-]{1,60} "@")? )"
       R"((hostname | ipv4) (":" [0-9]{1,5})? ("/" uri-char*)* | uri-char+ ("/" uri-char*)*) )"
       R"(("?" (uri-char | [/?])*)? ("#" (uri-char | [/?])*)?)",
       {"uri-char", "hostname", "ipv4"}},
      {"uuid", R"(hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12})", {"hex"}},
      {"octet", R"([0-9] | [1-9] [0-9] | "1" [0-9]{2} | "2" [0-4] [0-9] | "25" [0-5])", {}},
      {"ipv4", R"(octet ("." octet){3})", {"octet"}},
      {"label", R"([a-zA-Z0-9] ([a-zA-Z0-9-]{0,61} [a-zA-Z0-9])?)", {}},
      {"hostname", R"(label ("." label){0,8})", {"label"}},
      {"email",
       R"([a-zA-Z0-9_+-]{1,30} ("." [a-zA-Z0-9_+-]{1,30}){0,3} "@" label ("." label){1,5})",
       {"label"}},
  };
  return all;
}

}  // namespace

std::string JsonSchemaRules::add(const std::string& name, std::string body) {
  check(rules_.size() < kMaxRules, "json schema: too large: more than ", kMaxRules, " rules");
  return rules_.emplace_back(name, std::move(body)).first;
}

std::string JsonSchemaRules::add(std::string body) { return add(fresh_name(), std::move(body)); }

std::string JsonSchemaRules::fresh_name() { return concat("r", ++fresh_); }

std::string JsonSchemaRules::primitive(const std::string& name) {
  const auto found = std::find_if(primitives().begin(), primitives().end(),
                                  [&](const Primitive& p) { return name == p.name; });
  ensure(found != primitives().end(), "json schema: no primitive ", name);
  if (primitives_.insert(name).second) {
    add(name, found->body);
    for (const char* need : found->needs) primitive(need);
  }
  return name;
}

std::string JsonSchemaRules::text() const {
  std::string out;
  for (const auto& [name, body] : rules_) out += concat(name, " ::= ", body, "\n");
  return out;
}

// Rules from the back: what may come at property i if it is the first of the object, or a later
// one.
std::string JsonSchemaRules::members(const std::vector<Property>& properties,
                                     const std::string& others) {
  primitive("space");
  const std::string colon = R"( space ":" space )", comma = R"("," space )";
  // An empty alternative is written as a text, since a rule goes on behind a | at the end of a
  // line.
  std::string first = R"("")", later = first;
  if (!others.empty()) {
    const std::string pair = add(concat(other_name(properties), colon, others, " space"));
    later = add(concat("(", comma, pair, ")*"));
    first = add(concat("(", pair, " ", later, ")?"));
  }
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const std::string here =
        concat(gbnf_text(json_text(property.name)), colon, property.value, " space ", later);
    const auto or_skip = [&](const std::string& taken, const std::string& skipped) {
      return property.required ? taken : concat(taken, " | ", skipped);
    };
    const std::string as_first = or_skip(here, first), as_later = or_skip(comma + here, later);
    first = add(as_first);
    later = add(as_later);
  }
  return first;
}

// A name that is none of the properties', written without escapes.
std::string JsonSchemaRules::other_name(const std::vector<Property>& properties) {
  if (properties.empty()) return primitive("string");
  primitive("char");
  std::vector<std::u32string> names;
  for (const Property& property : properties) {
    std::u32string& name = names.emplace_back();
    for (std::string_view rest = property.name; !rest.empty();) {
      const CodePoint point = decode_utf8(rest);
      name += static_cast<char32_t>(point.code);
      rest.remove_prefix(static_cast<size_t>(point.length));
    }
  }
  std::sort(names.begin(), names.end());
  return concat(R"("\"" )", unlike(names, 0));
}

// The rest of a name, with its quote, that begins like these in `depth` letters and is none of
// them: it ends here, or differs in the next letter, or shares that with some of them.
std::string JsonSchemaRules::unlike(const std::vector<std::u32string>& names, size_t depth) {
  check(depth <= 256, "json schema: a property's name is too long beside additionalProperties");
  std::vector<std::pair<uint32_t, uint32_t>> used = {
      {0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}};
  std::string out;
  bool taken = false;
  for (size_t i = 0; i < names.size();) {
    if (names[i].size() == depth) {
      taken = true;
      ++i;
      continue;
    }
    const char32_t letter = names[i][depth];
    size_t end = i;
    while (end < names.size() && names[end].size() > depth && names[end][depth] == letter) ++end;
    const bool escaped = letter < 0x20 || letter == '"' || letter == '\\' || letter == 0x7F;
    if (!escaped) {
      const std::vector<std::u32string> same(names.begin() + static_cast<ptrdiff_t>(i),
                                             names.begin() + static_cast<ptrdiff_t>(end));
      const auto code = static_cast<uint32_t>(letter);
      used.emplace_back(code, code);
      out += concat(" | ", gbnf_class({{code, code}}), " ", unlike(same, depth + 1));
    }
    i = end;
  }
  if (!taken) out += R"( | "\"")";
  return add(concat(gbnf_class_except(used), R"( [^"\\\x00-\x1F\x7F]* "\"")", out));
}

}  // namespace tensora::llm
