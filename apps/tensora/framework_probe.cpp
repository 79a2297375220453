#include "framework_probe.h"

#include "child_process.h"

namespace tensora::cli {

nlohmann::ordered_json to_json(const llm::FrameworkStatus& status) {
  nlohmann::ordered_json out = {
      {"name", status.name},       {"version", status.version},
      {"library", status.library}, {"usable", status.is_usable()},
      {"reason", status.reason},   {"devices", nlohmann::ordered_json::array()}};
  for (const auto& device : status.devices)
    out["devices"].push_back(
        {{"kind", device.kind}, {"usable", device.reason.empty()}, {"reason", device.reason}});
  return out;
}

llm::FrameworkStatus probe_framework(const std::string& name, double seconds,
                                     std::optional<Device> device, bool all_devices) {
  llm::FrameworkStatus status;
  status.name = name;
  std::vector<std::string> words = {"frameworks", name, "--json", "--in-process"};
  if (device) words.insert(words.end(), {"--device", to_string(*device)});
  if (!all_devices) words.emplace_back("--first");
  try {
    ChildProcess child(words);
    const auto found = nlohmann::json::parse(child.receive(seconds)).at(0);
    status.version = found.at("version").get<std::string>();
    status.library = found.at("library").get<std::string>();
    status.reason = found.at("reason").get<std::string>();
    for (const auto& one : found.at("devices"))
      status.devices.push_back(
          {one.at("kind").get<std::string>(), one.at("reason").get<std::string>()});
  } catch (const ChildError& error) {
    status.reason = concat("its self-test failed: ", error.what());
  } catch (const nlohmann::json::exception& error) {
    status.reason = concat("its self-test gave no result: ", error.what());
  }
  return status;
}

}  // namespace tensora::cli
