#include "tensora/distributed/init.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "tensora/base/error_kinds.h"
#include "tensora/base/settings.h"
#include "tensora/core/rank_state.h"
#include "tensora/distributed/environment.h"
#include "tensora/distributed/job.h"
#include "tensora/distributed/local.h"
#include "tensora/distributed/mpi_library.h"
#include "tensora/distributed/nccl_library.h"
#include "tensora/distributed/report.h"

namespace tensora::distributed {
namespace {

struct Session {
  std::shared_ptr<Job> job;
  std::optional<int> rank;  // once it is known
  MpiLibrary* mpi = nullptr;
  double limit = 0;  // of calls, in seconds; 0: none
};

// Of the process; threads that are ranks have none.
Session& session() {
  static Session* const kept = new Session;  // outlives what runs at the end of the process
  return *kept;
}

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 8; ++i) {
    constexpr char digits[] = "0123456789abcdef";
    for (uint32_t bits = device(), k = 0; k < 4; ++k, bits >>= 4) token += digits[bits & 15];
  }
  return token;
}

std::string asked_backend(const InitOptions& options) {
  constexpr std::string_view known[] = {"auto", "local", "mpi", "nccl"};
  std::string wanted = options.backend;
  if (wanted == "auto" && !setting("TENSORA_BACKEND").empty()) wanted = setting("TENSORA_BACKEND");
  check_as<ValueError>(std::ranges::find(known, wanted) != std::end(known),
                       "init: expected the backend auto, local, mpi or nccl, got \"", wanted, "\"");
  return wanted;
}

// By which the processes' host memory is exchanged.
std::string chosen_backend(const InitOptions& options, const JobPlace& place) {
  std::string wanted = asked_backend(options);
  if (wanted == "local" || wanted == "mpi") return wanted;
  if (place.started_by_mpi) return "mpi";
  check(!place.local_known || place.local_ranks == place.ranks, "init: ", place.source, " started ",
        place.ranks,
        " ranks on several hosts, which exchange data through MPI: start them by "
        "mpirun, srun or tensora launch --hosts");
  return "local";
}

void join_locally(Job& job, const JobPlace& place, const InitOptions& options) {
  check(place.meeting_point.has_value(), "init: ", place.source, " says rank ", place.rank, " of ",
        place.ranks,
        ", but not where rank 0 is: set TENSORA_MASTER=ADDRESS:PORT, or start the ranks "
        "by tensora launch");
  job.control = std::make_unique<Control>(*place.meeting_point, job.rank, job.ranks, job.failure,
                                          job.recorder, options.join_limit);
  job.control->watch_launcher(launcher_process());
  if (job.rank == 0) job.control->put("token", random_token().substr(0, 16));
  const std::string word = job.control->get("token", options.join_limit);
  job.fabric =
      make_local_fabric(*job.control, place.meeting_point->token, word, options.join_limit);
}

void join_by_mpi(Job& job, MpiLibrary& mpi, const InitOptions& options) {
  // MPI has brought the ranks together already; it tells them where rank 0 listens.
  Socket listener;
  std::string told;
  if (job.rank == 0) {
    // The name of a host may mean loopback on the host itself: Debian's installer writes 127.0.1.1
    // into /etc/hosts.
    const bool alone = job.local_ranks == job.ranks;
    listener = Socket::listen(alone ? "127.0.0.1" : "", 0);
    told =
        concat(alone ? "127.0.0.1" : host_addresses(), " ", listener.port(), " ", random_token());
  }
  told = mpi.broadcast(told);
  const size_t first = told.find(' '), second = told.rfind(' ');
  const MeetingPoint place{told.substr(0, first), std::stoi(told.substr(first + 1)),
                           told.substr(second + 1)};
  job.control = std::make_unique<Control>(place, job.rank, job.ranks, job.failure, job.recorder,
                                          options.join_limit, std::move(listener));
  job.fabric = mpi.make_fabric();
}

// Note [Leaving without a way back]
// When a rank of an MPI job has died, calls of MPI may never return and cannot be cancelled, and
// MPI_Finalize waits for the dead. Destructors would wait for the thread that is inside such a
// call. So the process reports and ends at once, without running them. Only the main function of a
// job does this, never a call of the library: a program that handles failures itself gets
// exceptions, and has to leave in the same way. mpirun ends all ranks as soon as it sees that one
// has failed, so each waits a moment for the others' reports.
[[noreturn]] void leave(int status) {
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::_exit(status);
}

// Note [Leaving together]
// MPI_Finalize waits for all ranks and cannot be left. If one of them fails meanwhile, the others
// hang in it, and mpirun of some versions hangs or crashes too. So a rank ends MPI only when all
// have said that they leave in order.
void wait_for_others(Job& job, double limit) {
  const auto start = std::chrono::steady_clock::now();
  while (!job.failure->happened() && !job.control->all_left()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (limit > 0 && waited.count() > limit)
      job.failure->set(std::make_exception_ptr(GroupTimeoutError(
          concat("rank ", job.rank, " has ended, and others did not within ", limit, " s"))));
  }
}

void register_end() {
  static const int registered = std::atexit([] { shutdown(); });
  ensure(registered == 0, "init: atexit");
}

int fail_run(const std::exception_ptr& error) {
  const std::shared_ptr<Job> job = session().job;
  bool secondary = false;
  std::string text;
  try {
    std::rethrow_exception(error);
  } catch (const RankFailedError& known) {
    secondary = job && known.rank() != job->rank;
    text = known.what();
  } catch (const std::exception& known) {
    text = known.what();
  } catch (...) {
    text = "an exception of unknown type";
  }
  report(session().rank ? concat("rank ", *session().rank, ": ", text) : text);
  const int status = secondary ? kFailedWithAnother : 1;
  if (!job) return status;
  job->failure->set(error);
  if (!secondary && job->ranks > 1)
    report(concat("rank ", job->rank, "'s last calls:\n", job->recorder->text(4)));
  if (job->fabric && !job->fabric->survives_failures()) leave(status);
  return status;
}

}  // namespace

std::shared_ptr<ProcessGroup> init(const InitOptions& options) {
  check(!session().job && !session().mpi, "init: this process has joined a job already");
  JobPlace place = read_place({options.rank, options.ranks, options.master});
  session().rank = place.rank;
  const bool gpu = asked_backend(options) == "nccl";
  if (place.ranks == 1 && !place.started_by_mpi) {
    if (!gpu) return world();
    set_world(make_nccl_group(make_group_of_one(), Device(DeviceType::cuda, place.local_rank), {}));
    register_end();
    return world();
  }
  const std::string backend = chosen_backend(options, place);
  auto job = std::make_shared<Job>();
  MpiLibrary* mpi = nullptr;
  if (backend == "mpi") {
    mpi = &open_mpi_library();
    mpi->start();
    place.rank = mpi->rank();
    place.ranks = mpi->ranks();
    place.local_rank = mpi->local_rank();
    place.local_ranks = mpi->local_ranks();
  }
  session().rank = job->rank = place.rank;
  job->ranks = place.ranks;
  job->local_rank = place.local_known || mpi ? place.local_rank : place.rank;
  job->local_ranks = place.local_known || mpi ? place.local_ranks : place.ranks;
  session().mpi = mpi;
  session().limit = options.group.limit;
  if (place.ranks > 1) {
    if (mpi)
      join_by_mpi(*job, *mpi, options);
    else
      join_locally(*job, place, options);
    job->failure->set_listener([control = job->control.get()](const std::exception_ptr& error) {
      control->tell_failure(error);
    });
    std::shared_ptr<ProcessGroup> all = make_world(job, options.group);
    if (gpu)
      all = make_nccl_group(all, Device(DeviceType::cuda, job->local_rank),
                            {job->control.get(), job->failure, options.join_limit});
    set_world(std::move(all));
  }
  session().job = std::move(job);
  register_end();
  return world();
}

void shutdown() {
  Session& now = session();
  set_world(nullptr);
  if (now.job && now.job->control) {
    now.job->control->leave();
    if (now.mpi) wait_for_others(*now.job, now.limit);
  }
  const bool failed = now.job && now.job->failure->happened();
  now.job = nullptr;
  MpiLibrary* const mpi = std::exchange(now.mpi, nullptr);
  if (mpi && !failed) mpi->finish();  // after a failure it would wait for the dead
}

int local_rank() { return session().job ? session().job->local_rank : 0; }
int local_ranks() { return session().job ? session().job->local_ranks : 1; }

std::string recorded_calls(size_t most) {
  return session().job ? session().job->recorder->text(most) : std::string();
}

int run(const std::function<void(ProcessGroup& world)>& body, const InitOptions& options) {
  try {
    const std::shared_ptr<ProcessGroup> world = init(options);
    body(*world);
  } catch (...) {
    return fail_run(std::current_exception());
  }
  const std::shared_ptr<Job> job = session().job;
  shutdown();
  const bool failed = job && job->failure->happened() && !job->fabric->survives_failures();
  if (failed) leave(kFailedWithAnother);
  return 0;
}

}  // namespace tensora::distributed
