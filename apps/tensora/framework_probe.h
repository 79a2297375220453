#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tensora/llm/backends/backend_manager.h"

namespace tensora::cli {

/// What `tensora frameworks --json` prints of one framework.
nlohmann::ordered_json to_json(const llm::FrameworkStatus& status);

/// Opens a framework's library and runs its self-test in another process, so that one that crashes
/// or hangs is a reason and not the end of this program. `seconds` is the most that it may take;
/// with `device`, only that kind of device is tried, else all or the first that works.
llm::FrameworkStatus probe_framework(const std::string& name, double seconds,
                                     std::optional<Device> device, bool all_devices);

}  // namespace tensora::cli
