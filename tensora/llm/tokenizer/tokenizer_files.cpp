#include <filesystem>

#include "tensora/base/check.h"
#include "tensora/io/mapped_file.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/tokenizer/tokenizer_sources.h"

namespace tensora::llm {
namespace {

namespace fs = std::filesystem;

// A file, or nothing where there is none.
class Text {
 public:
  explicit Text(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) > 0)
      file_ = io::MappedFile::open(path.string());
  }
  std::string_view view() const {
    if (!file_) return {};
    return {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  }

 private:
  std::shared_ptr<io::MappedFile> file_;
};

}  // namespace

TokenizerPtr tokenizer_from_file(const std::string& path, const TokenizerOptions& options) {
  return io::reading("tokenizer_from_file", path, [&] {
    const fs::path where(path);
    check(fs::exists(where), "there is no such file");
    check(fs::is_regular_file(where), "it is not a file");
    const Text file(where);
    const std::string_view text = file.view();
    check(!text.empty(), "the file is empty");
    // A sentencepiece model begins with a piece: the byte of field 1, which is also a line's end.
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != text.npos && text[first] == '{' &&
                      (text[0] != '\n' || where.extension() == ".json");
    if (json) {
      check(options.pre.empty(), "a tokenizer.json says itself how text is cut");
      const Text config(where.parent_path() / "tokenizer_config.json");
      const Text generation(where.parent_path() / "generation_config.json");
      return tokenizer_from_json_files(
          {.tokenizer = text, .config = config.view(), .generation = generation.view()});
    }
    if (text[0] == '\n') return tokenizer_from_sentencepiece(text);
    return tokenizer_from_tiktoken(text, options);
  });
}

TokenizerPtr load_tokenizer(const ModelFile& model, const TokenizerOptions& options) {
  if (model.folder().empty())
    return io::reading("load_tokenizer", model.path(),
                       [&] { return tokenizer_from(model.metadata(), options); });
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    const fs::path path = fs::path(model.folder()) / name;
    if (fs::exists(path)) return tokenizer_from_file(path.string(), options);
  }
  for (const auto& entry : fs::directory_iterator(model.folder()))
    if (entry.path().extension() == ".tiktoken")
      return tokenizer_from_file(entry.path().string(), options);
  fail("load_tokenizer: '", model.folder(),
       "' has none of tokenizer.json, tokenizer.model and *.tiktoken");
}

}  // namespace tensora::llm
