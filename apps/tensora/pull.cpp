#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "commands.h"
#include "download.h"
#include "tensora/base/check.h"
#include "tensora/base/sha256.h"
#include "tensora/io/mapped_file.h"
#include "tensora/io/safetensors.h"
#include "tensora/llm/gguf/gguf_reader.h"
#include "tensora/llm/registry.h"
#include "tensora/train/progress_bar.h"

namespace tensora::cli {
namespace {

namespace fs = std::filesystem;

struct PullOptions {
  std::string model, out, sha256, server = "https://huggingface.co";
  bool list = false, quiet = false, again = false;
};

void list_models() {
  std::printf("%-14s %-18s %-8s %10s  %-6s  %s\n", "name", "model", "kind", "parameters", "pinned",
              "file");
  for (const llm::RegistryEntry& entry : llm::registry())
    std::printf("%-14s %-18s %-8s %9.2fB  %-6s  %s\n", std::string(entry.name).c_str(),
                std::string(entry.title).c_str(), std::string(entry.architecture).c_str(),
                static_cast<double>(entry.parameters()) / 1e9,
                entry.details.sha256.empty() ? "-" : "SHA256",
                entry.details.file.empty()
                    ? "-"
                    : concat(entry.details.repository, "/", entry.details.file).c_str());
}

bool is_address(const std::string& text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

/// The last part of an address, which must be a plain file name.
std::string file_name(const std::string& address) {
  const std::string path = address.substr(0, address.find_first_of("?#"));
  const std::string name = path.substr(path.rfind('/') + 1);
  check(!name.empty() && name != "." && name != ".." && name.find('\\') == name.npos, "'", address,
        "' does not end in the name of a file; say where to put it with --out");
  return name;
}

bool is_known_kind(const std::string& path) {
  return path.ends_with(".gguf") || path.ends_with(".safetensors");
}

/// Throws if a file of a known kind is damaged or cut off. `path` tells the kind.
void check_file(const std::string& path, const std::string& file) {
  io::reading("pull", file, [&] {
    // Of a split model this looks at one part alone: the others may not be here yet.
    if (path.ends_with(".gguf")) llm::parse_gguf(io::MappedFile::open(file)->bytes());
    if (path.ends_with(".safetensors")) io::load_safetensors(file);
  });
}

std::string sha256_of(const std::string& path) {
  Sha256 sum;
  sum.update(io::MappedFile::open(path)->bytes());
  return sum.hex();
}

/// What is wrong with a file that an earlier call left; empty if it can stay.
std::string mistake(const std::string& path, const std::string& sha256) {
  try {
    check_file(path, path);
    const std::string sum = sha256.empty() ? "" : sha256_of(path);
    return sum == sha256 ? "" : concat("the SHA-256 must be ", sha256, ", got ", sum);
  } catch (const Error& error) {
    return error.what();
  }
}

void pull(const PullOptions& options) {
  std::string address = options.model, path = options.out, sha256 = options.sha256;
  if (is_address(address)) {
    if (path.empty()) path = (fs::path(llm::models_folder()) / file_name(address)).string();
  } else {
    const llm::RegistryEntry& entry = llm::find_registered(address);
    if (path.empty()) path = llm::pulled_path(entry);
    address = entry.address(options.server);
    if (sha256.empty()) sha256 = entry.details.sha256;
  }
  if (fs::exists(path) && !fs::is_regular_file(path))
    throw UsageError(concat("--out: expected the name of a file, got '", path,
                            fs::is_directory(path) ? "', a folder" : "', which is no file"));
  if (fs::exists(path) && !options.again) {
    const std::string wrong = mistake(path, sha256);
    if (wrong.empty()) {
      if (!options.quiet) std::fprintf(stderr, "it is there already; --again fetches it anew\n");
      std::printf("%s\n", path.c_str());
      return;
    }
    std::fprintf(stderr, "%s is there, but cannot be used: %s; fetching it anew\n", path.c_str(),
                 wrong.c_str());
  }
  std::optional<train::ProgressBar> bar;
  const Downloaded result = download(
      {.address = address,
       .path = path,
       .sha256 = sha256,
       .validate = is_known_kind(path) ? [&](const std::string& file) { check_file(path, file); }
                                       : std::function<void(const std::string&)>(),
       .progress = [&](uint64_t done, uint64_t total) {
         if (options.quiet || total == 0) return;
         if (!bar)
           bar.emplace(static_cast<int64_t>(total >> 20),
                       train::ProgressBarOptions{.title = file_name(path), .unit = "MiB"});
         bar->update(static_cast<int64_t>(done >> 20));
       }});
  if (bar) bar->finish();
  if (!options.quiet)
    std::fprintf(stderr, "%.1f MB%s, SHA-256 %s%s\n", static_cast<double>(result.bytes) / 1e6,
                 result.resumed_from > 0 ? ", continued" : "", result.sha256.c_str(),
                 result.checked
                     ? ""
                     : " (compared with nothing: neither the list nor the server names one)");
  std::printf("%s\n", path.c_str());
}

}  // namespace

void add_pull(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("pull", "Download a language model, and go on where a download stopped");
  auto options = std::make_shared<PullOptions>();
  command->add_option("model", options->model, "A name of the list, or the address of a file");
  command->add_option("--out", options->out, "Output file. Default: in the models' folder");
  command->add_option("--sha256", options->sha256, "Expected SHA-256 checksum");
  command->add_option("--server", options->server, "Server of the listed models")
      ->capture_default_str();
  command->add_flag("--list", options->list, "Print the models that are known by name");
  command->add_flag("--again", options->again, "Fetch it even if it is there");
  command->add_flag("--quiet", options->quiet, "Print the path of the file and nothing else");
  command->footer(
      "Models are kept in ~/.cache/tensora/models, or where TENSORA_MODELS says. The checksum is\n"
      "compared with --sha256, with the one that the list pins, or with what the server says. A\n"
      "file gets its name when it is complete and valid; until then it is called NAME.part.\n\n"
      "Examples:\n"
      "  tensora pull --list\n"
      "  tensora pull llama3-1b\n"
      "  tensora pull https://example.org/model.gguf --sha256 9f86d0…");
  command->callback([options] {
    if (options->list) return list_models();
    if (options->model.empty()) throw UsageError("say which model; --list prints the known ones");
    pull(*options);
  });
}

}  // namespace tensora::cli
