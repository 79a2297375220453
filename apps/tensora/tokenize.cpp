#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "commands.h"
#include "files.h"
#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::cli {
namespace {

struct TokenizeOptions {
  std::string model, file, pre, check;
  std::optional<std::string> text;
  bool ids = false, json = false, no_bos = false, special = false, decode = false;
};

// What a tokenizer is compared on where no text is given: scripts, numbers, blanks, signs.
constexpr std::string_view kSample =
    "Hello, world! It's 2024; we'll see 1234567 things.\n\n  int main() {\n\treturn 0;\n}\n"
    "naïve café, Größe, Füße; ЁЖИК в тумане; Ελληνικά; 東京都は日本の首都です。 "
    "我想在apple工作1314151天～\n"
    "한국어 텍스트, עברית, العربية ١٢٣, हिन्दी, ไทย, កាន់តែពិសេស, e\u0301 \u00A0\u3000 ½ ² 🚀🦙 "
    "👩‍👩‍👧 don't DON'T I'LL 'tis a'b ''''''``````\"\"\"\"......!!!!!!?????? "
    "------======= "
    "\r\n\r\n \t \t\n";

llm::TokenizerPtr open_tokenizer(const std::string& model, const std::string& pre) {
  namespace fs = std::filesystem;
  const llm::TokenizerOptions options{.pre = pre};
  std::error_code ignored;
  // A folder may have no weights yet.
  const fs::path inside = fs::path(model) / "tokenizer.json";
  if (fs::exists(inside, ignored)) return llm::tokenizer_from_file(inside.string(), options);
  const std::string path = llm::resolve_model(model);
  const bool is_model = path.ends_with(".gguf") || fs::is_directory(path, ignored);
  return is_model ? llm::load_tokenizer(llm::ModelFile::open(path), options)
                  : llm::tokenizer_from_file(path, options);
}

// None where no text was given.
std::optional<std::string> input_of(const TokenizeOptions& options) {
  if (!options.file.empty()) return read_file(options.file);
  return options.text == "-" ? read_file("-") : options.text;
}

// A token's bytes for people: quoted, with escapes.
std::string shown(std::string_view bytes) {
  std::string out = "\"";
  while (!bytes.empty()) {
    const auto [code, length] = decode_utf8(bytes);
    const auto byte = static_cast<uint8_t>(bytes[0]);
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02X", byte);
    if (code == '\n')
      out += "\\n";
    else if (code == '\t')
      out += "\\t";
    else if (code == '\r')
      out += "\\r";
    else if (code == '"' || code == '\\')
      out += std::string("\\") + static_cast<char>(code);
    else if (code == kInvalidUtf8 || code < 32 || code == 127)
      out += hex;
    else
      out += bytes.substr(0, static_cast<size_t>(length));
    bytes.remove_prefix(static_cast<size_t>(length));
  }
  return out + "\"";
}

void print_table(const llm::Tokenizer& tokenizer, const std::vector<llm::Token>& tokens,
                 size_t bytes) {
  std::printf("%s\n%zu tokens for %zu bytes\n", tokenizer.description().c_str(), tokens.size(),
              bytes);
  for (const llm::Token token : tokens)
    std::printf("%8d  %s%s\n", token, shown(tokenizer.bytes_of(token, {.special = true})).c_str(),
                tokenizer.is_control(token) ? "  (control)" : "");
}

void print_json(const llm::Tokenizer& tokenizer, const std::vector<llm::Token>& tokens) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const llm::Token token : tokens)
    rows.push_back({{"id", token},
                    {"text", valid_utf8(tokenizer.bytes_of(token, {.special = true}))},
                    {"control", tokenizer.is_control(token)}});
  const nlohmann::ordered_json out = {{"tokenizer", tokenizer.description()},
                                      {"vocab_size", tokenizer.vocab_size()},
                                      {"count", tokens.size()},
                                      {"tokens", rows}};
  std::printf("%s\n", out.dump().c_str());
}

void compare(const llm::Tokenizer& tokenizer, const TokenizeOptions& options,
             const std::string& text) {
  const auto other = open_tokenizer(options.check, "");
  const llm::EncodeOptions how{.add_special = !options.no_bos, .parse_special = options.special};
  const auto ours = tokenizer.encode(text, how), theirs = other->encode(text, how);
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto at = a - ours.begin();
  const auto name = [](const llm::Tokenizer& of, auto place, auto end) {
    return place == end ? std::string("nothing")
                        : concat(*place, " ", shown(of.bytes_of(*place, {.special = true})));
  };
  check(a == ours.end() && b == theirs.end(), "the tokenizers differ at token ", at, " of ",
        ours.size(), ", after ",
        shown(tokenizer.decode(
            std::span(ours).subspan(static_cast<size_t>(std::max<int64_t>(0, at - 5)),
                                    static_cast<size_t>(std::min<int64_t>(at, 5))))),
        ": ", options.model, " has ", name(tokenizer, a, ours.end()), ", ", options.check, " has ",
        name(*other, b, theirs.end()));
  std::printf("the same %zu tokens\n", ours.size());
}

void decode(const llm::Tokenizer& tokenizer, const TokenizeOptions& options,
            const std::string& text) {
  std::istringstream numbers(text);
  std::vector<llm::Token> tokens;
  for (std::string word; numbers >> word;) {
    char* end = nullptr;
    const long id = std::strtol(word.c_str(), &end, 10);
    check(*end == '\0' && id >= 0 && id < tokenizer.vocab_size(), "'", word,
          "' is not a token; expected a number below ", tokenizer.vocab_size());
    tokens.push_back(static_cast<llm::Token>(id));
  }
  const std::string out = tokenizer.decode(tokens, {.special = options.special});
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void tokenize(const TokenizeOptions& options) {
  const auto tokenizer = open_tokenizer(options.model, options.pre);
  const std::optional<std::string> given = input_of(options);
  if (!given && options.check.empty())
    throw UsageError("a text is expected: TEXT, '-' for standard input, or --file");
  const std::string text = given.value_or(std::string(kSample));
  if (!options.check.empty()) return compare(*tokenizer, options, text);
  if (options.decode) return decode(*tokenizer, options, text);
  const auto tokens =
      tokenizer->encode(text, {.add_special = !options.no_bos, .parse_special = options.special});
  if (options.json) return print_json(*tokenizer, tokens);
  if (!options.ids) return print_table(*tokenizer, tokens, text.size());
  std::string line;
  for (const llm::Token token : tokens) line += concat(line.empty() ? "" : " ", token);
  std::printf("%s\n", line.c_str());
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize", "Show the tokens that a model makes of a text");
  auto options = std::make_shared<TokenizeOptions>();
  command
      ->add_option("model,-m,--model", options->model,
                   "A .gguf file, a Hugging Face folder, a tokenizer.json, a tokenizer.model, a "
                   "tiktoken file, or the name of a pulled model")
      ->required()
      ->type_name("MODEL");
  auto* text = command->add_option("text", options->text, "The text; - reads standard input")
                   ->type_name("TEXT");
  command->add_option("-f,--file", options->file, "Read the text from a file; -: standard input")
      ->type_name("FILE")
      ->excludes(text);
  auto* ids = command->add_flag("--ids", options->ids, "Print the ids alone, in one line");
  auto* json = command->add_flag("--json", options->json, "Print JSON")->excludes(ids);
  command->add_flag("--no-bos", options->no_bos, "Add no special tokens around the text");
  command->add_flag("--special", options->special,
                    "Names of control tokens in the text become those tokens");
  auto* decode =
      command->add_flag("--decode", options->decode, "TEXT is a list of ids; print their text")
          ->excludes(ids)
          ->excludes(json);
  command
      ->add_option("--pre", options->pre,
                   "The pre-tokenizer, where the file names none or a wrong one")
      ->type_name("NAME");
  command
      ->add_option("--check", options->check,
                   "Compare with another tokenizer of the same model; without TEXT, on a sample of "
                   "many scripts")
      ->type_name("TOKENIZER")
      ->excludes(ids)
      ->excludes(json)
      ->excludes(decode);
  command->footer(
      "Examples:\n"
      "  tensora tokenize model.gguf 'Once upon a time'\n"
      "  tensora tokenize model.gguf --ids --no-bos - < text.txt\n"
      "  tensora tokenize model.gguf --check tokenizer.json");
  command->callback([options] { tokenize(*options); });
}

}  // namespace tensora::cli
