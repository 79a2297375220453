#include "bench_record.h"

#include <cstdio>
#include <map>
#include <set>

#include "tensora/train/chart.h"

namespace tensora::cli {
namespace {

template <class... Args>
std::string formatted(const char* format, Args... arguments) {
  char text[512];
  std::snprintf(text, sizeof(text), format, arguments...);
  return text;
}

std::string size_text(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? formatted("%.2f MiB", mebibytes)
                          : formatted("%.2f GiB", mebibytes / 1024);
}

std::string speed_text(const BenchRecord& record) {
  const llm::Spread speed = llm::spread_of(record.samples.speeds(record.test));
  return formatted("%.2f ± %.2f", speed.mean, speed.deviation);
}

std::string bandwidth_text(const BenchRecord& record) {
  return record.bytes_per_second > 0 ? formatted("%.2f", record.bytes_per_second / 1e9) : "";
}

std::string share_text(const BenchRecord& record) {
  return record.bytes_per_second > 0 && record.bandwidth > 0
             ? formatted("%.0f", 100 * record.bytes_per_second / record.bandwidth)
             : "";
}

using Table = std::vector<std::vector<std::string>>;

int columns_of(const std::string& text) {
  int columns = 0;
  for (const char byte : text) columns += (byte & 0xC0) != 0x80;
  return columns;
}

std::string markdown(const Table& table) {
  std::vector<int> widths(table[0].size(), 2);
  for (const auto& row : table)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  std::string out;
  for (size_t r = 0; r < table.size(); ++r) {
    for (size_t i = 0; i < table[r].size(); ++i) {
      const std::string space(static_cast<size_t>(widths[i] - columns_of(table[r][i])), ' ');
      out += i == 0 ? "| " + table[r][i] + space : " | " + space + table[r][i];
    }
    out += " |\n";
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i)
      out +=
          "| " + std::string(static_cast<size_t>(widths[i]) - (i > 0), '-') + (i == 0 ? " " : ": ");
    out += "|\n";
  }
  return out;
}

// Columns that have the same value everywhere and the usual one are left out, as llama-bench does.
std::string markdown_of(const std::vector<BenchRecord>& records) {
  std::set<int64_t> threads, batches;
  std::set<std::string> caches;
  for (const BenchRecord& record : records) {
    threads.insert(record.threads);
    batches.insert(record.batch);
    caches.insert(record.cache_type);
  }
  const bool shows_batch = batches.size() > 1 || *batches.begin() != 512;
  const bool shows_cache = caches.size() > 1 || *caches.begin() != "float16";
  const auto row = [&](auto&&... cells) {
    std::vector<std::string> out;
    (out.insert(out.end(), cells.begin(), cells.end()), ...);
    return out;
  };
  using Cells = std::vector<std::string>;
  Table table{row(Cells{"model", "size", "params", "backend", "threads"},
                  shows_batch ? Cells{"n_ubatch"} : Cells{},
                  shows_cache ? Cells{"type_k"} : Cells{}, Cells{"test", "t/s", "GB/s", "% peak"})};
  for (const BenchRecord& record : records)
    table.push_back(row(
        Cells{record.model.name, size_text(record.model.bytes),
              formatted("%.2f M", static_cast<double>(record.model.parameters) / 1e6),
              record.framework, std::to_string(record.threads)},
        shows_batch ? Cells{std::to_string(record.batch)} : Cells{},
        shows_cache ? Cells{record.cache_type} : Cells{},
        Cells{record.test.name(), speed_text(record), bandwidth_text(record), share_text(record)}));
  return markdown(table) + "\nbuild: " + records[0].version + "\n";
}

std::string csv_cell(const nlohmann::ordered_json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? "\"\"" : std::string(1, letter);
  return out + "\"";
}

// The lists of samples are JSON's alone; the fields of "result" become columns.
std::string csv_of(const std::vector<BenchRecord>& records) {
  std::string out;
  for (size_t i = 0; i < records.size(); ++i) {
    std::string head, line;
    const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
      head += (head.empty() ? "" : ",") + name;
      line += (line.empty() ? "" : ",") + csv_cell(value);
    };
    const nlohmann::ordered_json record = records[i].to_json();
    for (const auto& [name, value] : record.items()) {
      if (value.is_array()) continue;
      if (!value.is_object())
        add(name, value);
      else
        for (const auto& [inner, field] : value.items()) add("result_" + inner, field);
    }
    if (i == 0) out += head + "\n";
    out += line + "\n";
  }
  return out;
}

std::string dumped(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

nlohmann::ordered_json BenchRecord::to_json() const {
  const bool on_gpu = device != "cpu:0" && device != "cpu";
  std::vector<int64_t> nanoseconds;
  std::vector<double> nanosecond_values;
  for (const double time : samples.total) {
    nanoseconds.push_back(static_cast<int64_t>(time * 1e9));
    nanosecond_values.push_back(time * 1e9);
  }
  const std::vector<double> speeds = samples.speeds(test);
  const llm::Spread time_spread = llm::spread_of(nanosecond_values);
  const llm::Spread speed_spread = llm::spread_of(speeds);
  nlohmann::ordered_json out = {
      {"build_commit", version},
      {"build_number", 0},
      {"cpu_info", cpu},
      {"gpu_info", gpu},
      {"backends", framework},
      {"model_filename", model_path},
      {"model_type", model.name},
      {"model_size", model.bytes},
      {"model_n_params", model.parameters},
      {"n_batch", batch},
      {"n_ubatch", batch},
      {"n_threads", threads},
      {"cpu_mask", "0x0"},
      {"cpu_strict", false},
      {"poll", 50},
      {"type_k", cache_type},
      {"type_v", cache_type},
      {"n_gpu_layers", on_gpu ? 99 : 0},
      {"n_cpu_moe", 0},
      {"split_mode", "none"},
      {"main_gpu", 0},
      {"no_kv_offload", false},
      {"flash_attn", true},
      {"devices", device},
      {"tensor_split", "0.00"},
      {"tensor_buft_overrides", "none"},
      {"use_mmap", true},
      {"use_direct_io", false},
      {"embeddings", false},
      {"no_op_offload", 0},
      {"no_host", false},
      {"fit_target", 0},
      {"fit_min_ctx", 0},
      {"n_prompt", test.prompt},
      {"n_gen", test.generate},
      {"n_depth", test.depth},
      {"test_time", time},
      {"avg_ns", static_cast<int64_t>(time_spread.mean)},
      {"stddev_ns", static_cast<int64_t>(time_spread.deviation)},
      {"avg_ts", speed_spread.mean},
      {"stddev_ts", speed_spread.deviation},
      {"samples_ns", nanoseconds},
      {"samples_ts", speeds},
  };
  out["n_sequences"] = test.sequences;
  out["read_gb_per_second"] = bytes_per_second / 1e9;
  out["measured_gb_per_second"] = bandwidth / 1e9;
  out["percent_of_measured"] = bandwidth > 0 ? 100 * bytes_per_second / bandwidth : 0;
  out["command"] = command;
  out["result"] = nlohmann::ordered_json::parse(result.to_json());
  return out;
}

std::string format_records(const std::vector<BenchRecord>& records, const std::string& format) {
  if (records.empty()) return format == "json" ? "[]\n" : "";
  if (format == "csv") return csv_of(records);
  if (format == "md") return markdown_of(records);
  std::string lines;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const BenchRecord& record : records) {
    all.push_back(record.to_json());
    lines += dumped(all.back(), -1) + "\n";
  }
  return format == "jsonl" ? lines : dumped(all, 2) + "\n";
}

std::string batched_table(const std::vector<BenchRecord>& records) {
  Table table{
      {"PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s"}};
  for (const BenchRecord& record : records) {
    const llm::BenchTest& test = record.test;
    const double all = llm::spread_of(record.samples.total).mean;
    const double prompt = llm::spread_of(record.samples.prompt).mean, rest = all - prompt;
    const auto speed = [&](int64_t tokens, double time) {
      return time > 0 ? formatted("%.2f", static_cast<double>(tokens) / time) : std::string("-");
    };
    table.push_back({std::to_string(test.prompt), std::to_string(test.generate),
                     std::to_string(test.sequences),
                     std::to_string((test.depth + test.prompt + test.generate) * test.sequences),
                     formatted("%.3f", prompt), speed(test.prompt * test.sequences, prompt),
                     formatted("%.3f", rest), speed(test.generate * test.sequences, rest),
                     formatted("%.3f", all), speed(test.tokens(), all)});
  }
  return markdown(table);
}

namespace {

// The test of a point, without the number that the axis shows.
std::string curve_name(const BenchRecord& record, const std::string& axis, bool tells_threads,
                       bool tells_batch) {
  llm::BenchTest test = record.test;
  if (axis == "depth") test.depth = 0;
  if (axis == "sequences") test.sequences = 1;
  std::string name = test.name();
  if (axis == "tokens") {
    const std::string_view kind = test.generate == 0 ? "prompt"
                                  : test.prompt == 0 ? "generation"
                                                     : "prompt and generation";
    name = concat(kind, name.substr(std::min(name.find(' '), name.size())));
  }
  if (tells_threads && axis != "threads") name += concat(", ", record.threads, " threads");
  if (tells_batch && axis != "batch") name += concat(", batch ", record.batch);
  return name;
}

}  // namespace

std::string bench_svg(const std::vector<BenchRecord>& records) {
  const struct {
    const char* name;
    int64_t (*of)(const BenchRecord&);
  } axes[] = {
      {"depth", [](const BenchRecord& r) { return r.test.depth; }},
      {"sequences", [](const BenchRecord& r) { return r.test.sequences; }},
      {"threads", [](const BenchRecord& r) { return r.threads; }},
      {"batch", [](const BenchRecord& r) { return r.batch; }},
      {"tokens", [](const BenchRecord& r) { return r.test.prompt + r.test.generate; }},
  };
  const auto* axis = &axes[0];
  size_t most = 0;
  std::map<std::string, bool> varies;
  for (const auto& candidate : axes) {
    std::set<int64_t> values;
    for (const BenchRecord& record : records) values.insert(candidate.of(record));
    varies[candidate.name] = values.size() > 1;
    if (values.size() > most) {
      most = values.size();
      axis = &candidate;
    }
  }
  std::map<std::string, train::RunHistory> runs;  // by model
  for (const BenchRecord& record : records) {
    train::RunHistory& run = runs[record.model.name + " on " + record.framework];
    const std::string name =
        concat("tokens per second over ", axis->name, "/",
               curve_name(record, axis->name, varies["threads"], varies["batch"]));
    auto curve = std::find_if(run.curves.begin(), run.curves.end(),
                              [&](const train::Curve& c) { return c.name == name; });
    if (curve == run.curves.end()) curve = run.curves.insert(curve, train::Curve{name, {}, {}});
    curve->steps.push_back(static_cast<double>(axis->of(record)));
    curve->values.push_back(llm::spread_of(record.samples.speeds(record.test)).mean);
  }
  std::vector<train::RunHistory> list;
  for (auto& [name, run] : runs) {
    run.name = name;
    list.push_back(std::move(run));
  }
  return train::chart_svg(list, {.title = "tensora bench", .smoothing = 0, .x_label = axis->name});
}

}  // namespace tensora::cli
