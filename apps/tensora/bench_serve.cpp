#include "commands.h"

#ifdef TENSORA_HAS_SERVE

#include <atomic>
#include <cmath>
#include <thread>

#include "bench_record.h"
#include "bench_serve.h"
#include "files.h"
#include "number_checks.h"
#include "tensora/dispatch/build_info.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ServeBenchSettings {
  std::string url, endpoint = "completions", ladder, rate = "inf", percentiles = "50,90,99";
  std::string ramp, output = "table", file, svg, compared, goodput;
  double ramp_start = 1, ramp_end = 10;
  int64_t requests = 0, warmups = 1, pid = 0;
  bool chaos = false, detailed = false;
  serve::TlsClient::Options tls;
  serve::LoadPlan plan;
};

void read_url(const std::string& url, const serve::TlsClient::Options& tls, serve::LoadPlan& plan) {
  const auto refuse = [&](const char* what) {
    throw UsageError("URL: expected http://HOST:PORT or https://HOST:PORT, " + std::string(what) +
                     ", got '" + url + "'");
  };
  const bool is_https = url.starts_with("https://");
  std::string rest = is_https ? url.substr(8) : url.starts_with("http://") ? url.substr(7) : url;
  while (rest.ends_with('/')) rest.pop_back();
  if (rest.ends_with("/v1")) rest.resize(rest.size() - 3);
  const size_t colon = rest.rfind(':');
  plan.host = rest.substr(0, colon);
  plan.port = is_https ? 443 : 80;
  if (colon != rest.npos) {
    const std::string port = rest.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos)
      refuse("with a number as the port");
    plan.port = std::stoi(port);
  }
  if (plan.host.starts_with('[') && plan.host.ends_with(']'))
    plan.host = plan.host.substr(1, plan.host.size() - 2);
  if (plan.host.empty() || plan.port < 1 || plan.port > 65535) refuse("a host and a port");
  if (is_https) plan.tls = std::make_shared<serve::TlsClient>(tls);
}

double read_rate(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  char* end = nullptr;
  const double rate = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(rate > 0))
    throw UsageError("--request-rate: expected requests per second or inf, got '" + text + "'");
  return rate;
}

std::vector<double> read_percentiles(const std::string& text) {
  std::vector<double> out;
  for (const std::string& part : split_list(text)) {
    char* end = nullptr;
    const double value = std::strtod(part.c_str(), &end);
    if (*end != '\0' || value < 0 || value > 100)
      throw UsageError("--metric-percentiles: expected numbers from 0 to 100, got '" + part + "'");
    out.push_back(value);
  }
  // The table shows these.
  for (const double needed : {50.0, 99.0})
    if (std::find(out.begin(), out.end(), needed) == out.end()) out.push_back(needed);
  return out;
}

// "ttft:100,tpot:20": milliseconds.
serve::ServiceLevel read_level(const std::string& text) {
  serve::ServiceLevel out;
  for (const std::string& part : split_list(text)) {
    const size_t colon = std::min(part.find(':'), part.size());
    const std::string name = part.substr(0, colon);
    const char* digits = colon < part.size() ? part.c_str() + colon + 1 : "";
    char* end = nullptr;
    const double value = std::strtod(digits, &end);
    double* limit = name == "ttft"   ? &out.ttft
                    : name == "tpot" ? &out.tpot
                    : name == "e2el" ? &out.e2el
                                     : nullptr;
    if (limit == nullptr || !(value > 0) || *end != '\0')
      throw UsageError("--goodput: expected limits such as ttft:100,tpot:20,e2el:2000, got '" +
                       part + "'");
    *limit = value;
  }
  return out;
}

class ServeBench {
 public:
  explicit ServeBench(const ServeBenchSettings& settings)
      : settings_(settings),
        plan_(settings.plan),
        percentiles_(read_percentiles(settings.percentiles)),
        level_(read_level(settings.goodput)) {
    read_url(settings.url, settings.tls, plan_);
    plan_.path = settings.endpoint == "chat" ? "/v1/chat/completions" : "/v1/completions";
    plan_.rate = read_rate(settings.rate);
    if (!settings.ramp.empty()) {
      plan_.rate = settings.ramp_start;
      plan_.last_rate = settings.ramp_end;
      plan_.exponential_ramp = settings.ramp == "exponential";
    }
    if (settings.chaos) {
      plan_.vanishing = 0.2;
      plan_.slow = plan_.rubbish = 0.05;
    }
    if (plan_.vanishing + plan_.slow + plan_.rubbish > 1)
      throw UsageError("--vanish, --slow and --rubbish must not add up to more than 1");
    if (plan_.key.empty() && std::getenv("TENSORA_API_KEY") != nullptr)
      plan_.key = std::getenv("TENSORA_API_KEY");
  }

  Json run() {
    if (plan_.model.empty()) plan_.model = first_model();
    warm_up();
    Json records = Json::array();
    if (settings_.ladder.empty()) {
      records.push_back(run_rung(plan_.concurrency));
    } else {
      for (const int64_t streams : parse_numbers(settings_.ladder, "--ladder")) {
        if (streams < 1) throw UsageError("--ladder: expected streams from 1 on");
        records.push_back(run_rung(streams));
      }
    }
    return records;
  }

 private:
  std::string first_model() const {
    const serve::PlainAnswer answer = serve::fetch(plan_, "GET", "/v1/models");
    const auto json = nlohmann::json::parse(answer.body, nullptr, false);
    check(answer.status == 200 && json.is_object() && json.contains("data") &&
              json["data"].is_array() && !json["data"].empty(),
          settings_.url, "/v1/models: expected a list of models, got status ", answer.status);
    return json["data"][0].value("id", "");
  }

  void warm_up() const {
    if (settings_.warmups == 0) return;
    serve::LoadPlan plan = plan_;
    plan.requests = settings_.warmups;
    plan.rate = std::numeric_limits<double>::infinity();
    plan.vanishing = plan.slow = plan.rubbish = 0;
    plan.seed += 1000;
    const serve::LoadResult result = serve::run_load(plan);
    for (const serve::RequestRecord& one : result.requests)
      check(one.is_complete, "warm-up: ", one.error);
  }

  Json run_rung(int64_t streams) {
    serve::LoadPlan plan = plan_;
    plan.concurrency = streams;
    plan.requests =
        settings_.requests > 0 ? settings_.requests : std::max<int64_t>(64, 2 * streams);
    serve::LoadSurroundings around;
    around.knows_process = settings_.pid > 0;
    const Json idle = server_state(plan_, /*waits=*/true);
    if (around.knows_process) around.before = serve::process_use(settings_.pid);
    const serve::LoadResult result = watched_run(plan, around);
    const Json afterwards = server_state(plan_, /*waits=*/true);
    if (around.knows_process)
      around.after.resident_bytes = serve::process_use(settings_.pid).resident_bytes;
    Json record = description(plan);
    record.update(
        serve::load_report(plan, result, around, percentiles_, level_, settings_.detailed));
    if (!idle.empty()) record["server_before"] = idle;
    if (!afterwards.empty()) record["server_after"] = afterwards;
    if (settings_.output == "table") std::fprintf(stderr, "%s\n", progress_text(record).c_str());
    return record;
  }

  // Runs the plan while another thread looks at the server's process.
  serve::LoadResult watched_run(const serve::LoadPlan& plan,
                                serve::LoadSurroundings& around) const {
    std::atomic<bool> is_over = false;
    std::thread watcher;
    if (around.knows_process)
      watcher = std::thread([&] {
        while (!is_over) {
          try {
            const serve::ProcessUse use = serve::process_use(settings_.pid);
            around.most_resident_bytes = std::max(around.most_resident_bytes, use.resident_bytes);
            around.most_threads = std::max(around.most_threads, use.threads);
          } catch (const Error&) {
            return;  // the server has ended, which the requests tell
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
      });
    const auto join = [&] {
      is_over = true;
      if (watcher.joinable()) watcher.join();
    };
    try {
      serve::LoadResult result = serve::run_load(plan);
      if (around.knows_process) around.after = serve::process_use(settings_.pid);
      join();
      return result;
    } catch (...) {
      join();
      throw;
    }
  }

  static std::string rate_text(const serve::LoadPlan& plan) {
    if (plan.last_rate <= 0) return concat(plan.rate);
    return concat(plan.rate, " to ", plan.last_rate, plan.exponential_ramp ? " (exponential)" : "");
  }

  // What tells the tests apart; under the names that `tensora bench --compare` knows.
  Json description(const serve::LoadPlan& plan) const {
    Json out;
    const std::string kind =
        std::isfinite(plan.rate) ? concat(" at ", rate_text(plan), " requests/s") : std::string();
    out["date"] = time_text();
    out["endpoint_type"] = settings_.endpoint == "chat" ? "openai-chat" : "openai";
    out["build_commit"] = concat("tensora ", build_info().version);
    // Without the model's name: other servers call the same file something else.
    out["model_type"] = concat("serve ", settings_.endpoint, kind,
                               plan.vanishing + plan.slow + plan.rubbish > 0 ? ", chaos" : "");
    out["n_prompt"] = plan.prompt_tokens + plan.prefix_tokens;
    out["n_gen"] = plan.output_tokens;
    out["n_depth"] = 0;
    out["n_sequences"] = std::max<int64_t>(1, plan.concurrency);
    return out;
  }

  const ServeBenchSettings& settings_;
  serve::LoadPlan plan_;
  std::vector<double> percentiles_;
  serve::ServiceLevel level_;
};

void bench_serve(const ServeBenchSettings& settings) {
  for (const std::string& path : {settings.file, settings.svg}) check_writable(path);
  const std::string before = settings.compared.empty() ? "" : read_file(settings.compared);
  const Json records = ServeBench(settings).run();
  const std::string json = records.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  write_file(settings.file.empty() ? "-" : settings.file,
             settings.output == "json" ? json : serve_table(records));
  if (!settings.svg.empty()) write_file(settings.svg, serve_svg(records));
  if (settings.compared.empty()) return;
  std::string text;
  const bool fine = compare_record_texts(settings.compared, before, "this run", json, text);
  std::fputs(text.c_str(), settings.output == "json" ? stderr : stdout);
  if (!fine) fail("some tests became slower");
}

void add_load(CLI::App& command, ServeBenchSettings& settings) {
  serve::LoadPlan& plan = settings.plan;
  const auto count = [&](const char* flag, int64_t& member, int64_t least, const char* help) {
    command.add_option(flag, member, help)
        ->check(CLI::Range(least, int64_t{1} << 40))
        ->capture_default_str();
  };
  const auto share = [&](const char* flag, double& member, const char* help) {
    command.add_option(flag, member, help)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  };
  count("-c,--concurrency,--max-concurrency", plan.concurrency, 0,
        "Requests at once at most (closed loop). Default 0: no limit");
  command.add_option("--ladder", settings.ladder, "Run the test with each of these concurrencies")
      ->type_name("LIST");
  command
      .add_option("--request-rate", settings.rate,
                  "Requests per second at random times (open loop); inf: all at once")
      ->capture_default_str();
  command
      .add_option("--burstiness", plan.burstiness,
                  "Shape of the gamma-distributed gaps: 1 is Poisson, lower is burstier")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--ramp-up-strategy", settings.ramp, "Let the request rate grow")
      ->check(CLI::IsMember({"linear", "exponential"}));
  command.add_option("--ramp-up-start-rps", settings.ramp_start, "Requests per second at first")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--ramp-up-end-rps", settings.ramp_end, "Requests per second at the end")
      ->check(positive)
      ->capture_default_str();
  count("-n,--num-prompts", settings.requests, 0,
        "Requests of a test. Default 0: twice the concurrency, at least 64");
  count("-p,--input-len,--random-input-len", plan.prompt_tokens, 1, "Prompt length, in tokens");
  count("-g,--output-len,--random-output-len", plan.output_tokens, 1, "Answer length, in tokens");
  command
      .add_option("--range-ratio,--random-range-ratio", plan.length_spread,
                  "Vary both lengths evenly by this share, up and down")
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str();
  count("--prefix-len,--random-prefix-len", plan.prefix_tokens, 0,
        "Tokens before the prompt that all requests share");
  count("--vocab", plan.vocabulary, 4, "Token ids of prompts are below this number");
  command.add_option("--seed", plan.seed, "Seed of prompts, lengths and times")
      ->capture_default_str();
  command.add_option("--temperature", plan.temperature, "Sampling temperature of the requests")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  count("--num-warmups", settings.warmups, 0, "Requests before the test");
  command.add_flag("--chaos", settings.chaos, "Misbehave: --vanish 0.2 --slow 0.05 --rubbish 0.05");
  share("--vanish", plan.vanishing, "Share of clients that disconnect in mid-answer");
  share("--slow", plan.slow, "Share of clients that read 100 bytes per second");
  share("--rubbish", plan.rubbish, "Share of requests that are invalid");
  command.add_option("--timeout", plan.timeout, "Seconds to wait for an answer")
      ->check(positive)
      ->capture_default_str();
}

}  // namespace

void add_bench_serve(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("serve", "Load-test a server with the OpenAI API");
  auto settings = std::make_shared<ServeBenchSettings>();
  command->add_option("url", settings->url, "http://HOST:PORT or https://HOST:PORT")
      ->required()
      ->type_name("URL");
  command
      ->add_option("--cacert", settings->tls.authorities,
                   "Certificates to trust, PEM. Default: the system's")
      ->type_name("FILE");
  command->add_flag("!-k,!--insecure", settings->tls.verifies,
                    "Do not verify the server's certificate");
  command->add_option("-m,--model", settings->plan.model, "Default: the server's first model");
  command->add_option("--endpoint", settings->endpoint, "completions sends token ids; chat, words")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->capture_default_str();
  command->add_option("--api-key", settings->plan.key, "Default: TENSORA_API_KEY");
  add_load(*command, *settings);
  command->add_option("--pid", settings->pid,
                      "Process id of a server on this machine: measure its CPU time and memory");
  command
      ->add_option("--client-threads", settings->plan.threads,
                   "Threads that drive the streams. Default 0: a thread per 128 streams, on at "
                   "most a quarter of the processor's cores")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_flag("!--no-health", settings->plan.probes_health, "Do not probe /health meanwhile");
  command->add_option("--goodput", settings->goodput,
                      "Count requests within these limits, ms: ttft:100,tpot:20,e2el:2000");
  command->add_option("--metric-percentiles", settings->percentiles, "Percentiles to report")
      ->type_name("LIST")
      ->capture_default_str();
  command->add_flag_callback(
      "--json", [settings] { settings->output = "json"; }, "Write JSON, with vLLM's field names");
  command->add_flag("--save-detailed", settings->detailed, "Add the times of all requests to it");
  command->add_option("--out", settings->file, "Write to a file");
  command->add_option("--compare", settings->compared,
                      "A --json file of an earlier run or of another server: what changed");
  command->add_option("--svg,--plot", settings->svg, "Draw the ladder as an SVG file");
  command->footer(
      "One thread drives all streams. TTFT, TPOT, ITL and E2EL are those of vLLM's 'bench serve': "
      "time to\nfirst token, mean time per later token, gaps between events, time to the last "
      "token.\n\n"
      "Examples:\n"
      "  tensora bench serve http://127.0.0.1:8080 --ladder 1,16,64,256,1000 --pid PID\n"
      "  tensora bench serve http://127.0.0.1:8080 --request-rate 20 -n 400\n"
      "  tensora bench serve http://127.0.0.1:8080 -c 200 -n 2000 --chaos --json --out chaos.json");
  command->callback([settings] { bench_serve(*settings); });
}

}  // namespace tensora::cli

#else

namespace tensora::cli {

void add_bench_serve(CLI::App& bench) {
  bench.add_subcommand("serve", "Load-test a server (left out of this build)")
      ->prefix_command()
      ->callback([] { fail("this build has no server: Boost 1.74 was not found"); });
}

}  // namespace tensora::cli

#endif
