#include <cstdio>

#include "child_process.h"
#include "commands.h"
#include "figures.h"
#include "framework_probe.h"
#include "interrupt.h"
#include "number_checks.h"

namespace tensora::cli {
namespace {

struct FrameworksSettings {
  std::vector<std::string> names;
  std::string device;
  double seconds = 60;
  bool json = false, in_process = false, first = false;
};

std::vector<std::string> names_of(const FrameworksSettings& settings) {
  if (!settings.names.empty()) return settings.names;
  std::vector<std::string> names = llm::BackendManager().names();
  for (const std::string& name : llm::installed_frameworks()) names.push_back(name);
  return names;
}

std::string table_of(const std::vector<llm::FrameworkStatus>& statuses) {
  std::vector<std::vector<std::string>> rows = {
      {"framework", "version", "device", "usable", "library, or why not"}};
  const auto filled = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const llm::FrameworkStatus& status : statuses) {
    const std::string library = status.library.empty() ? "built in" : status.library;
    if (!status.reason.empty())
      rows.push_back({status.name, filled(status.version), "-", "no", status.reason});
    for (const auto& [kind, reason] : status.devices)
      rows.push_back({status.name, filled(status.version), kind, reason.empty() ? "yes" : "no",
                      reason.empty() ? library : reason});
  }
  for (auto& row : rows) row.back() = printable(row.back(), 400);
  return table_text(std::move(rows));
}

std::string dumped(const std::vector<llm::FrameworkStatus>& statuses, int indent) {
  auto list = nlohmann::ordered_json::array();
  for (const llm::FrameworkStatus& status : statuses) list.push_back(to_json(status));
  return list.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void list_frameworks(const FrameworksSettings& settings) {
  std::optional<Device> device;
  if (!settings.device.empty()) device = as_usage([&] { return Device(settings.device); });
  std::vector<llm::FrameworkStatus> statuses;
  if (settings.in_process) {
    const ParentLine parent;
    for (const std::string& name : settings.names)
      statuses.push_back(llm::BackendManager().inspect(name, device, !settings.first));
    parent.send(dumped(statuses, -1));
    return;
  }
  const Interrupt interrupt{SIGINT, SIGTERM};
  for (const std::string& name : names_of(settings)) {
    llm::BackendManager manager;
    statuses.push_back(name == "native" ? manager.inspect(name, device)
                                        : probe_framework(name, settings.seconds, device, true));
  }
  std::fputs((settings.json ? dumped(statuses, 2) + "\n" : table_of(statuses)).c_str(), stdout);
  if (settings.names.empty()) return;
  for (const llm::FrameworkStatus& status : statuses)
    if (!status.is_usable()) throw Failure();
}

}  // namespace

void add_frameworks(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("frameworks", "List the frameworks that can run models here");
  auto settings = std::make_shared<FrameworksSettings>();
  command->add_option("names", settings->names, "Names. Default: native and all installed ones")
      ->type_name("NAME");
  command->add_option("--device", settings->device, "Try only this device: cpu, cuda, cuda:1");
  command->add_flag("--json", settings->json, "Print a JSON list");
  command->add_option("--timeout", settings->seconds, "Seconds that a self-test may take")
      ->check(positive)
      ->capture_default_str();
  // For the process that runs one self-test.
  command->add_flag("--in-process", settings->in_process)->group("");
  command->add_flag("--first", settings->first)->group("");
  command->footer(
      "Each framework runs a tiny model in a process of its own and must give the known answer.\n"
      "Libraries libtensora_framework_NAME.so are looked for in the folders of "
      "TENSORA_FRAMEWORK_PATH\n"
      "and beside libtensora_llm.so, never in the working directory. With names, the exit code is "
      "1 "
      "if one\n"
      "of them cannot be used. docs/add-a-framework.md tells how to add one.");
  command->callback([settings] { list_frameworks(*settings); });
}

}  // namespace tensora::cli
