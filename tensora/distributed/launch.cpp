#include "tensora/distributed/launch.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tensora/base/error_kinds.h"
#include "tensora/base/settings.h"
#include "tensora/distributed/children.h"
#include "tensora/distributed/init.h"
#include "tensora/distributed/local.h"
#include "tensora/distributed/report.h"
#include "tensora/distributed/socket.h"

namespace tensora::distributed {
namespace {

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  return cores;
}

// Cores [share * rank, …) of those allowed; none where there are fewer cores than ranks.
std::vector<int> cores_of(int rank, int ranks, const std::vector<int>& cores) {
  const size_t share = cores.size() / static_cast<size_t>(ranks);
  if (share == 0) return {};
  const auto first = cores.begin() + static_cast<int64_t>(share) * rank;
  return {first, first + static_cast<int64_t>(share)};
}

std::string random_word() {
  std::random_device device;
  return concat(static_cast<unsigned long>(device()), "-", static_cast<unsigned long>(device()));
}

bool is_on_path(const std::string& program) {
  const std::string_view path = setting("PATH");
  const std::string folders(path.empty() ? "/usr/bin:/bin" : path);
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    if (::access((folders.substr(begin, end - begin) + "/" + program).c_str(), X_OK) == 0)
      return true;
    begin = end + 1;
  }
  return false;
}

std::vector<ChildPlan> local_plans(const LaunchOptions& options, const std::string& token,
                                   int attempt) {
  // The port is free now; that another program takes it before rank 0 listens is an error of rank
  // 0, which says so.
  const int port = Socket::listen("127.0.0.1", 0).port();
  const std::vector<int> cores = allowed_cores();
  const int share = std::max<int>(1, static_cast<int>(cores.size()) / options.ranks);
  std::vector<ChildPlan> plans;
  for (int rank = 0; rank < options.ranks; ++rank) {
    ChildPlan plan;
    plan.name = concat(rank);
    plan.command = options.command;
    plan.cores = cores_of(rank, options.ranks, cores);
    plan.variables = {{"TENSORA_RANK", concat(rank)},
                      {"TENSORA_WORLD_SIZE", concat(options.ranks)},
                      {"TENSORA_LOCAL_RANK", concat(rank)},
                      {"TENSORA_LOCAL_SIZE", concat(options.ranks)},
                      {"TENSORA_MASTER", concat("127.0.0.1:", port)},
                      {"TENSORA_TOKEN", token},
                      {"TENSORA_BACKEND", "local"},
                      {"TENSORA_LAUNCHER", concat(::getpid())},
                      {"TENSORA_RESTART", concat(attempt)}};
    if (options.threads > 0 || setting("TENSORA_NUM_THREADS").empty())
      plan.variables.emplace_back("TENSORA_NUM_THREADS",
                                  concat(options.threads > 0 ? options.threads : share));
    plans.push_back(std::move(plan));
  }
  return plans;
}

/// The implementations of mpirun name their options differently.
enum class MpiRun : uint8_t { open_mpi_4, open_mpi_5, mpich };

MpiRun kind_of_mpirun() {
  std::string text;
  if (FILE* const pipe = ::popen("mpirun --version 2>&1", "r")) {
    char part[256];
    while (std::fgets(part, sizeof part, pipe)) text += part;
    ::pclose(pipe);
  }
  constexpr std::string_view mark = "(Open MPI) ";
  const size_t at = text.find(mark);
  if (at != std::string::npos)
    return std::atoi(text.c_str() + at + mark.size()) >= 5 ? MpiRun::open_mpi_5
                                                           : MpiRun::open_mpi_4;
  check(text.find("HYDRA") != std::string::npos || text.find("Intel(R) MPI") != std::string::npos,
        "launch: mpirun is neither Open MPI's nor MPICH's; it says: ",
        text.substr(0, text.find('\n')));
  return MpiRun::mpich;
}

// Each rank has threads of its own, for which a binding to one core would be wrong.
std::vector<std::string> mpirun_command(const LaunchOptions& options, bool crowded) {
  const MpiRun kind = kind_of_mpirun();
  std::vector<std::string> command = {"mpirun", "-n", concat(options.ranks)};
  const auto add = [&](std::initializer_list<const char*> words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  if (kind == MpiRun::mpich) {
    add({"-bind-to", "none"});
    if (options.prefix) add({"-prepend-rank"});
    if (!options.hosts.empty()) add({"-f", options.hosts.c_str()});
    add({"-genvlist", "TENSORA_NUM_THREADS,TENSORA_BACKEND,TENSORA_RESTART"});
    return command;
  }
  add({"--bind-to", "none"});
  if (kind == MpiRun::open_mpi_5)
    add({"--map-by", ":OVERSUBSCRIBE"});
  else
    add({"--oversubscribe"});
  if (options.prefix && kind == MpiRun::open_mpi_5) add({"--output", "tag"});
  if (options.prefix && kind == MpiRun::open_mpi_4) add({"--tag-output"});
  if (crowded) add({"--mca", "mpi_yield_when_idle", "1"});
  // Open MPI 4 looks for ssh even where no other host is asked for, and gives up without it.
  if (kind == MpiRun::open_mpi_4 && options.hosts.empty() && !is_on_path("ssh") &&
      !is_on_path("rsh"))
    add({"--mca", "plm", "isolated"});
  if (!options.hosts.empty()) add({"--hostfile", options.hosts.c_str()});
  for (const char* name : {"TENSORA_NUM_THREADS", "TENSORA_BACKEND", "TENSORA_RESTART"})
    add({"-x", name});
  return command;
}

std::vector<ChildPlan> mpi_plan(const LaunchOptions& options, int attempt) {
  const bool slurm = !setting("SLURM_JOB_ID").empty() && is_on_path("srun");
  check(
      slurm || is_on_path("mpirun"),
      "launch: the backend mpi needs mpirun (Debian and Ubuntu: apt install openmpi-bin) or srun, "
      "and neither is on the PATH");
  ChildPlan plan;
  plan.name = slurm ? "srun" : "mpirun";
  const int cores = static_cast<int>(allowed_cores().size());
  const int share = std::max(1, cores / options.ranks);
  const int threads = options.threads > 0 ? options.threads : share;
  if (slurm) {
    plan.command = {"srun", "--ntasks", concat(options.ranks), "--label", "--kill-on-bad-exit=1"};
  } else {
    plan.command = mpirun_command(options, options.hosts.empty() && options.ranks > cores);
  }
  plan.command.insert(plan.command.end(), options.command.begin(), options.command.end());
  plan.prefix = false;
  plan.starts_others = !slurm;
  plan.death_signal = SIGTERM;  // on which mpirun and srun end their ranks
  plan.variables = {{"TENSORA_BACKEND", "mpi"}, {"TENSORA_RESTART", concat(attempt)}};
  if (options.threads > 0 || setting("TENSORA_NUM_THREADS").empty())
    plan.variables.emplace_back("TENSORA_NUM_THREADS", concat(threads));
  return {plan};
}

void check_options(const LaunchOptions& options) {
  check_as<ValueError>(!options.command.empty(), "launch: no program was given");
  check_as<ValueError>(options.ranks >= 1 && options.ranks <= 65536,
                       "launch: expected 1 to 65536 ranks, got ", options.ranks);
  check_as<ValueError>(options.restarts >= 0,
                       "launch: the number of restarts must not be negative");
  check_as<ValueError>(
      options.backend == "auto" || options.backend == "local" || options.backend == "mpi",
      "launch: expected the backend auto, local or mpi, got \"", options.backend, "\"");
  check_as<ValueError>(options.hosts.empty() || options.backend != "local",
                       "launch: the backend local runs on this host only; --hosts needs mpi");
  check(options.hosts.empty() || ::access(options.hosts.c_str(), R_OK) == 0,
        "launch: the file of hosts ", options.hosts, " cannot be read");
}

}  // namespace

int launch(const LaunchOptions& options) {
  check_options(options);
  const bool mpi = options.backend == "mpi" || !options.hosts.empty();
  for (int attempt = 0;; ++attempt) {
    const std::string token = random_word();
    const auto plans = mpi ? mpi_plan(options, attempt) : local_plans(options, token, attempt);
    const ChildrenEnd end = run_children(plans, options.prefix, options.patience);
    if (!mpi) remove_shared_memory(token);
    if (end.status == 0) return 0;
    const bool again = attempt < options.restarts && !end.interrupted;
    report(concat("launch: ", end.cause,
                  again ? concat("; starting again (", attempt + 1, " of ", options.restarts, ")")
                        : std::string()));
    if (!again) return end.status;
  }
}

}  // namespace tensora::distributed
