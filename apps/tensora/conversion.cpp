#include "conversion.h"

#include <unistd.h>

#include <filesystem>
#include <memory>

#include "commands.h"
#include "interrupt.h"
#include "tensora/train/progress_bar.h"

namespace tensora::cli {

void with_progress(const std::string& title, bool quiet,
                   const std::function<void(std::function<void(uint64_t, uint64_t)>)>& work) {
  // What is half-written is removed on the way out.
  const Interrupt interrupt({SIGINT, SIGTERM, SIGHUP});
  std::unique_ptr<train::ProgressBar> bar;
  work([&](uint64_t done, uint64_t total) {
    if (Interrupt::requested()) throw Interrupted(Interrupt::signal());
    if (quiet || isatty(2) == 0) return;
    if (!bar)
      bar = std::make_unique<train::ProgressBar>(
          static_cast<int64_t>(total >> 20),
          train::ProgressBarOptions{.title = title, .unit = "MiB"});
    bar->update(static_cast<int64_t>(done >> 20));
  });
}

void check_output(const std::string& input, const std::string& path, bool overwrite) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  if (fs::equivalent(input, path, ignored))
    throw UsageError("'" + path + "' is what is read; choose another name");
  if (!overwrite && !(fs::is_directory(path, ignored) && fs::is_empty(path, ignored)))
    throw UsageError("'" + path + "' is there already; --overwrite replaces it");
}

}  // namespace tensora::cli
