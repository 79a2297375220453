#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensora/serve/load_plan.h"
#include "tensora/serve/load_report.h"

namespace tensora::cli {

/// The present, as 2026-01-31T12:00:00Z.
std::string time_text();
/// What the server says of its work in /metrics: requests and KV cache; empty if it says nothing.
/// `waits`: for up to 10 s, until it has no requests.
nlohmann::ordered_json server_state(const serve::LoadPlan& plan, bool waits);

/// A line about a test that has just ended.
std::string progress_text(const nlohmann::ordered_json& record);
/// The records of `tensora bench serve` as tables for people, and as a picture.
std::string serve_table(const nlohmann::ordered_json& records);
std::string serve_svg(const nlohmann::ordered_json& records);

}  // namespace tensora::cli
