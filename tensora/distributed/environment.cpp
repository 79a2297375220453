#include "tensora/distributed/environment.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "tensora/base/settings.h"

namespace tensora::distributed {
namespace {

using Variable = std::function<std::string(const char*)>;

/// The names of one launcher's variables; null where it has none.
struct Launcher {
  const char *name, *rank, *ranks, *local_rank, *local_ranks;
  bool mpi;
};
constexpr Launcher kLaunchers[] = {
    {"tensora launch", "TENSORA_RANK", "TENSORA_WORLD_SIZE", "TENSORA_LOCAL_RANK",
     "TENSORA_LOCAL_SIZE", false},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
};

bool parse(const std::string& text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

int number(const char* name, const std::string& text, int least) {
  int value = 0;
  check(parse(text, value) && value >= least, "init: ", name, " must be a number of at least ",
        least, ", got \"", text, "\"");
  return value;
}

int port_number(const char* name, const std::string& text) {
  int value = 0;
  check(parse(text, value) && value >= 1 && value <= 65535, "init: ", name,
        " must be a number from 1 to 65535, got \"", text, "\"");
  return value;
}

struct Seen {
  std::string name;
  int rank, ranks;
};

std::string list_of(const std::vector<Seen>& seen) {
  std::string text;
  for (const Seen& one : seen)
    append(text,
           concat(text.empty() ? "" : "; ", one.name, " says rank ", one.rank, " of ", one.ranks));
  return text;
}

MeetingPoint parse_master(const std::string& text) {
  const size_t colon = text.rfind(':');
  check(colon != std::string::npos && colon > 0,
        "init: expected ADDRESS:PORT for the address of rank 0, got \"", text, "\"");
  MeetingPoint place;
  place.address = text.substr(0, colon);
  place.port = port_number("the port of rank 0", text.substr(colon + 1));
  return place;
}

void read_meeting_point(JobPlace& place, const GivenPlace& given, const Variable& variable) {
  const std::string token = variable("TENSORA_TOKEN");
  const std::string ours = given.master.empty() ? variable("TENSORA_MASTER") : given.master;
  if (!ours.empty()) {
    place.meeting_point = parse_master(ours);
  } else if (const std::string address = variable("MASTER_ADDR"); !address.empty()) {
    const std::string port = variable("MASTER_PORT");
    check(!port.empty(), "init: MASTER_ADDR is set, but MASTER_PORT is not");
    // The port itself belongs to torchrun's own store where it keeps one.
    const int step = variable("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
    place.meeting_point = MeetingPoint{address, port_number("MASTER_PORT", port) + step, {}};
  }
  if (place.meeting_point) place.meeting_point->token = token;
}

// A step of srun. The variables are inherited by what a batch script starts in another way, so they
// count only where nothing else does.
bool read_slurm(JobPlace& place, const Variable& variable) {
  const std::string rank = variable("SLURM_PROCID"), ranks = variable("SLURM_STEP_NUM_TASKS");
  if (rank.empty() || ranks.empty()) return false;
  place.rank = number("SLURM_PROCID", rank, 0);
  place.ranks = number("SLURM_STEP_NUM_TASKS", ranks, 1);
  place.source = "Slurm";
  place.started_by_mpi = !variable("PMIX_RANK").empty();
  if (const std::string local = variable("SLURM_LOCALID"); !local.empty())
    place.local_rank = number("SLURM_LOCALID", local, 0);
  if (variable("SLURM_STEP_NUM_NODES") == "1") {
    place.local_ranks = place.ranks;
    place.local_known = true;
  }
  return true;
}

void take(JobPlace& place, const Launcher& launcher, const Seen& seen, const Variable& variable) {
  place.rank = seen.rank;
  place.ranks = seen.ranks;
  place.source = seen.name;
  const std::string local = variable(launcher.local_rank);
  const std::string locals = variable(launcher.local_ranks);
  if (local.empty() || locals.empty()) return;
  place.local_rank = number(launcher.local_rank, local, 0);
  place.local_ranks = number(launcher.local_ranks, locals, 1);
  place.local_known = true;
}

}  // namespace

JobPlace read_place(const GivenPlace& given, const Variable& variable) {
  JobPlace place;
  std::vector<Seen> seen;
  if (given.rank || given.ranks) {
    check(given.rank && given.ranks, "init: rank and ranks are given together or not at all");
    seen.push_back({"the caller", *given.rank, *given.ranks});
    take(place, {"the caller", "", "", "", "", false}, seen[0], [](const char*) { return ""; });
  }
  for (const Launcher& launcher : kLaunchers) {
    const std::string rank = variable(launcher.rank), ranks = variable(launcher.ranks);
    if (rank.empty() && ranks.empty()) continue;
    check(!rank.empty() && !ranks.empty(), "init: of ", launcher.name, "'s variables ",
          rank.empty() ? launcher.ranks : launcher.rank, " is set, but ",
          rank.empty() ? launcher.rank : launcher.ranks, " is not");
    seen.push_back(
        {launcher.name, number(launcher.rank, rank, 0), number(launcher.ranks, ranks, 1)});
    place.started_by_mpi = place.started_by_mpi || launcher.mpi;
    if (seen.size() == 1) take(place, launcher, seen[0], variable);
  }
  for (const Seen& other : seen)
    check(other.rank == seen[0].rank && other.ranks == seen[0].ranks,
          "init: the variables contradict each other: ", list_of(seen));
  if (seen.empty()) read_slurm(place, variable);
  check(place.rank >= 0 && place.rank < place.ranks, "init: ", place.source, " says rank ",
        place.rank, " of ", place.ranks);
  read_meeting_point(place, given, variable);
  return place;
}

int launcher_process() {
  int launcher = 0;
  if (!parse(std::string(setting("TENSORA_LAUNCHER")), launcher) || launcher <= 1) return 0;
  // In a container of its own a rank sees other processes under that number.
  for (int process = ::getppid(); process > 1;) {
    if (process == launcher) return launcher;
    std::ifstream file(concat("/proc/", process, "/stat"));
    std::string text;
    std::getline(file, text);
    // PID (NAME) STATE PARENT …; the name may have blanks and brackets.
    std::istringstream words(text.substr(std::min(text.rfind(')') + 1, text.size())));
    char state = 0;
    process = 0;
    words >> state >> process;
  }
  return 0;
}

JobPlace read_place(const GivenPlace& given) {
  return read_place(given, [](const char* name) { return std::string(setting(name)); });
}

}  // namespace tensora::distributed
