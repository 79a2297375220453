#include "tensora/llm/tokenizer/json_stations.h"

#include <nlohmann/json.hpp>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/tokenizer/base64.h"
#include "tensora/llm/tokenizer/hugging_face_classes.h"
#include "tensora/llm/tokenizer/pre_tokenizers.h"

namespace tensora::llm {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

// Before a tree is built: nesting would cost memory and a deep stack.
void check_depth(std::string_view text, std::string_view file) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      check(++depth <= kDeepest, file, ": nested more than ", kDeepest, " levels deep");
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

// A text to look for: given as it is, or as a regular expression.
std::shared_ptr<const Pattern> pattern_of(const json& part) {
  const json& pattern = json_member(part, "pattern");
  if (pattern.is_string())
    return std::make_shared<const Pattern>(literal_pattern(pattern.get<std::string>()));
  const json& text = json_part(pattern, "String");
  if (text.is_string())
    return std::make_shared<const Pattern>(literal_pattern(text.get<std::string>()));
  return std::make_shared<const Pattern>(json_member(pattern, "Regex").get<std::string>());
}

std::shared_ptr<const Pattern> pattern(std::string_view expression) {
  return std::make_shared<const Pattern>(expression);
}

Normalizer::Step replacement(const json& part) {
  const json& text = json_part(json_member(part, "pattern"), "String");
  const std::string content = json_text(part, "content", "");
  return text.is_string() ? normalizing::replace(text.get<std::string>(), content)
                          : normalizing::replace_matches(*pattern_of(part), content);
}

UnicodeForm form_named(const std::string& name) {
  return name == "NFC"    ? UnicodeForm::nfc
         : name == "NFD"  ? UnicodeForm::nfd
         : name == "NFKC" ? UnicodeForm::nfkc
                          : UnicodeForm::nfkd;
}

std::string decoded_base64(std::string_view text) {
  const std::optional<std::string> bytes = from_base64(text);
  check(bytes.has_value(), "precompiled_charsmap is not in base 64");
  return *bytes;
}

void add_bert_normalizer(const json& part, Normalizer& out) {
  const bool lowercase = json_flag(part, "lowercase", true);
  out.add(normalizing::bert({.clean = json_flag(part, "clean_text", true),
                             .chinese = json_flag(part, "handle_chinese_chars", true),
                             .strip_accents = json_flag(part, "strip_accents", lowercase),
                             .lowercase = lowercase}));
}

PreTokenizer::Matches matches_named(const std::string& name) {
  using enum PreTokenizer::Matches;
  if (name == "Isolated") return isolated;
  if (name == "Removed") return removed;
  if (name == "MergedWithPrevious") return join_previous;
  if (name == "MergedWithNext") return join_next;
  if (name == "Contiguous") return contiguous;
  fail(
      "the behaviour of a split must be Isolated, Removed, MergedWithPrevious, MergedWithNext or "
      "Contiguous, got '",
      name, "'");
}

// \w of the `Whitespace` pre-tokenizer, whose regular expressions are Rust's: with joiners, and
// without the fractions of Oniguruma.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9})"
    R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

// How Metaspace treats the beginning of a text; older files have a flag instead.
std::string prepend_scheme(const json& part) {
  const bool prefix = json_flag(part, "add_prefix_space", true);
  const std::string scheme = json_text(part, "prepend_scheme", prefix ? "always" : "never");
  check(scheme == "always" || scheme == "first" || scheme == "never",
        "prepend_scheme must be always, first or never, got '", scheme, "'");
  return scheme;
}

std::string replacement_mark(const json& part) {
  const std::string mark = json_text(part, "replacement", kSpaceMark);
  check(!mark.empty() && static_cast<size_t>(decode_utf8(mark).length) == mark.size(),
        "the replacement of Metaspace must be one character, got '", mark, "'");
  return mark;
}

void add_metaspace(const json& part, PreTokenizer& out) {
  const std::string mark = replacement_mark(part);
  const std::string scheme = prepend_scheme(part);
  out.add(PreTokenizer::Replace{" ", mark});
  if (scheme != "never")
    out.add(PreTokenizer::Prepend{
        mark, scheme == "first" ? PreTokenizer::When::first : PreTokenizer::When::always});
  if (json_flag(part, "split", true))
    out.add(PreTokenizer::Split{.pattern = pattern(literal_pattern(mark)),
                                .matches = PreTokenizer::Matches::join_next});
}

Token token_of(const json& pair, const Vocabulary& vocabulary) {
  check(pair.is_array() && pair.size() == 2,
        "a token of the post-processor must be a text and an id");
  const int64_t id = json_integer(pair[1], "the id of a token of the post-processor");
  check(id >= 0 && id < vocabulary.size(), "the post-processor names the token ", id,
        "; there are ", vocabulary.size());
  return static_cast<Token>(id);
}

void add_template(const json& part, const Vocabulary& vocabulary, std::vector<Token>& before,
                  std::vector<Token>& after) {
  bool text_seen = false;
  for (const json& item : json_member(part, "single")) {
    if (item.contains("Sequence")) {
      check(!text_seen, "a template that repeats the text is not supported");
      text_seen = true;
      continue;
    }
    const auto name = json_member(json_member(item, "SpecialToken"), "id").get<std::string>();
    const json& ids =
        json_member(json_member(json_member(part, "special_tokens"), name.c_str()), "ids");
    for (const json& id : ids)
      (text_seen ? after : before).push_back(token_of(json::array({name, id}), vocabulary));
  }
  check(text_seen, "a template without the text is not supported");
}

std::string cleaned_up(std::string text) {
  static const std::pair<const char*, const char*> kRules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = normalizing::replace(from, to)(std::move(text));
  return text;
}

}  // namespace

json parse_json(std::string_view text, std::string_view file) {
  check_depth(text, file);
  return json::parse(text);
}

const json& json_member(const json& object, const char* name) {
  check(object.is_object() && object.contains(name), "'", name, "' is missing");
  return object[name];
}

const json& json_part(const json& object, const char* name) {
  static const json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

std::string json_text(const json& object, const char* name, std::string_view fallback) {
  const json& value = json_part(object, name);
  check(value.is_null() || value.is_string(), "'", name, "' must be a text");
  return value.is_null() ? std::string(fallback) : value.get<std::string>();
}

int64_t json_integer(const json& value, std::string_view what) {
  // Of a real number beyond int64 the library would convert without a look.
  check(value.is_number_integer(), what, " must be an integer, got ", value.type_name());
  return value.get<int64_t>();
}

bool json_flag(const json& object, const char* name, bool fallback) {
  const json& value = json_part(object, name);
  check(value.is_null() || value.is_boolean(), "'", name, "' must be true or false");
  return value.is_null() ? fallback : value.get<bool>();
}

void add_normalizer(const json& part, Normalizer& out) {
  if (part.is_null()) return;
  const std::string type = json_text(part, "type", "");
  if (type == "Sequence") {
    for (const json& one : json_member(part, "normalizers")) add_normalizer(one, out);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    out.add(normalizing::form(form_named(type)));
  } else if (type == "Lowercase") {
    out.add(normalizing::lowercase());
  } else if (type == "StripAccents") {
    out.add(normalizing::strip_accents());
  } else if (type == "Strip") {
    out.add(normalizing::strip(json_flag(part, "strip_left", true),
                               json_flag(part, "strip_right", true)));
  } else if (type == "Prepend") {
    out.add(normalizing::prepend(json_text(part, "prepend", "")));
  } else if (type == "Replace") {
    out.add(replacement(part));
  } else if (type == "BertNormalizer") {
    add_bert_normalizer(part, out);
  } else if (type == "Precompiled") {
    const std::string map = json_text(part, "precompiled_charsmap", "");
    if (!map.empty()) out.add(normalizing::character_map(decoded_base64(map)));
  } else {
    fail("the normalizer '", type, "' is not supported");
  }
}

void add_pre_tokenizer(const json& part, PreTokenizer& out, bool& byte_level) {
  using Split = PreTokenizer::Split;
  using Matches = PreTokenizer::Matches;
  if (part.is_null()) return;
  const std::string type = json_text(part, "type", "");
  // What follows ByteLevel works on its letters, not on the text.
  const bool letters = byte_level;
  const auto add = [&](Split split) {
    split.letters = letters;
    out.add(std::move(split));
  };
  if (type == "Sequence") {
    for (const json& one : json_member(part, "pretokenizers"))
      add_pre_tokenizer(one, out, byte_level);
    return;
  }
  check(!letters || (type != "ByteLevel" && type != "Metaspace" && type != "BertPreTokenizer"),
        "the pre_tokenizer '", type, "' is not supported after ByteLevel");
  if (type == "ByteLevel") {
    byte_level = true;
    if (json_flag(part, "add_prefix_space", true)) out.add(PreTokenizer::Prepend{.what = " "});
    if (json_flag(part, "use_regex", true)) add({.pattern = pre_tokenizer("gpt-2").patterns[0]});
  } else if (type == "Split") {
    add({.pattern = pattern_of(part),
         .matches = matches_named(json_text(part, "behavior", "Isolated")),
         .invert = json_flag(part, "invert", false)});
  } else if (type == "Metaspace") {
    add_metaspace(part, out);
  } else if (type == "Digits") {
    const bool single = json_flag(part, "individual_digits", false);
    add({.pattern = pattern(single ? R"(\p{N})" : R"(\p{N}+)")});
  } else if (type == "Whitespace") {
    add({.pattern = pattern(concat("[", kWord, R"(]+|[^\s)", kWord, "]+")),
         .matches = Matches::removed,
         .invert = true});
  } else if (type == "WhitespaceSplit") {
    add({.pattern = pattern(R"(\s+)"), .matches = Matches::removed});
  } else if (type == "Punctuation") {
    add({.pattern = pattern(bert_punctuation()),
         .matches = matches_named(json_text(part, "behavior", "Isolated"))});
  } else if (type == "BertPreTokenizer") {
    add_bert_words(out);
  } else if (type == "CharDelimiterSplit") {
    add({.pattern = pattern(literal_pattern(json_text(part, "delimiter", ""))),
         .matches = Matches::removed});
  } else {
    fail("the pre_tokenizer '", type, "' is not supported");
  }
}

void add_post_processor(const json& part, const Vocabulary& vocabulary, std::vector<Token>& before,
                        std::vector<Token>& after) {
  const std::string type = json_text(part, "type", "");
  if (part.is_null() || type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const json& one : json_member(part, "processors"))
      add_post_processor(one, vocabulary, before, after);
  } else if (type == "TemplateProcessing") {
    add_template(part, vocabulary, before, after);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    before.push_back(token_of(json_member(part, "cls"), vocabulary));
    after.push_back(token_of(json_member(part, "sep"), vocabulary));
  } else {
    fail("the post_processor '", type, "' is not supported");
  }
}

JsonDecoder json_decoder(const json& part) {
  JsonDecoder out;
  const std::string type = json_text(part, "type", "");
  if (part.is_null()) {
    // Without a decoder, tokens are joined with blanks.
    out.steps.push_back([](const std::string& text) { return " " + text; });
    out.strips_first_space = true;
  } else if (type == "Sequence") {
    for (const json& one : json_member(part, "decoders")) {
      JsonDecoder inner = json_decoder(one);
      for (auto& step : inner.steps) out.steps.push_back(std::move(step));
      out.strips_first_space = out.strips_first_space || inner.strips_first_space;
    }
  } else if (type == "Replace") {
    out.steps.push_back(replacement(part));
  } else if (type == "ByteFallback") {
    out.steps.push_back([](std::string text) {
      const int byte = byte_of_name(text);
      return byte < 0 ? text : std::string(1, static_cast<char>(byte));
    });
  } else if (type == "Strip") {
    const auto count = [&](const char* name) {
      const json& value = json_part(part, name);
      return value.is_null() ? 0 : json_integer(value, name);
    };
    const int64_t start = count("start"), stop = count("stop");
    check(json_text(part, "content", " ") == " " && start <= 1 && stop == 0,
          "the decoder Strip is supported for one blank at the start");
    out.strips_first_space = start == 1;
  } else if (type == "Metaspace") {
    out.steps.push_back(normalizing::replace(replacement_mark(part), " "));
    out.strips_first_space = prepend_scheme(part) != "never";
  } else if (type == "WordPiece") {
    const std::string prefix = json_text(part, "prefix", "##");
    const bool cleanup = json_flag(part, "cleanup", true);
    out.steps.push_back([prefix, cleanup](const std::string& text) {
      std::string piece = text.starts_with(prefix) ? text.substr(prefix.size()) : " " + text;
      return cleanup ? cleaned_up(std::move(piece)) : piece;
    });
    out.strips_first_space = true;
  } else {
    // The tokens of bytes are bytes already; fusing them is what decoding does.
    check(type == "ByteLevel" || type == "Fuse", "the decoder '", type, "' is not supported");
  }
  return out;
}

}  // namespace tensora::llm
