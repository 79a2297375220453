#include "tensora/distributed/launch.h"

#include <memory>

#include "commands.h"
#include "number_checks.h"

namespace tensora::cli {

void add_launch(CLI::App& app) {
  auto options = std::make_shared<distributed::LaunchOptions>();
  CLI::App* const command = app.add_subcommand(
      "launch",
      "Start a program once for each rank of a distributed job: launch -n 4 -- PROGRAM ...");
  command->add_option("-n,--ranks", options->ranks, "Number of processes")
      ->check(CLI::Range(1, 65536))
      ->required();
  command
      ->add_option("--backend", options->backend,
                   "Communication backend: local (shared memory of this host), mpi (through "
                   "mpirun or srun), or auto: mpi if --hosts is given")
      ->check(CLI::IsMember({"auto", "local", "mpi"}))
      ->capture_default_str();
  command->add_option("--hosts", options->hosts, "File with a line HOST slots=N for each host");
  command
      ->add_option("--restarts", options->restarts,
                   "Number of times that a failed job is restarted")
      ->check(non_negative)
      ->capture_default_str();
  command
      ->add_option("--threads", options->threads,
                   "CPU threads of each rank (default: the cores divided by the ranks)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("!--no-prefix", options->prefix, "Print output without the number of its rank");
  command
      ->add_option("--patience", options->patience,
                   "Seconds that ranks get to end after one has failed, before SIGTERM and again "
                   "before SIGKILL")
      ->check(non_negative)
      ->capture_default_str();
  command->add_option("program", options->command, "The program and its arguments, after --")
      ->required();
  command->callback([options] {
    const int status = distributed::launch(*options);
    if (status != 0) throw EndWith{status};
  });
}

}  // namespace tensora::cli
