"""Jobs of several processes: `tensora launch` and mpirun with tensora-ranks, well and with faults."""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SKIPPED = 77
arguments = None


def environment(**changes):
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(TENSORA|OMPI|PRTE|PMI|PMIX|SLURM)_", k)}
    for name in ("OMPI", "PRTE"):  # Open MPI 4 and 5
        kept.update({f"{name}_ALLOW_RUN_AS_ROOT": "1", f"{name}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    # The parts of Open MPI that need nothing but memory and loopback. Others look for network cards, GPUs and a
    # munge daemon, and some of them stop the job where these are there but cannot be used, as in a container.
    kept.update(OMPI_MCA_pml="ob1", OMPI_MCA_btl="^openib,ofi,uct,usnic,smcuda", OMPI_MCA_osc="^ucx,rdma",
                PMIX_MCA_gds="hash", PMIX_MCA_psec="native")
    kept.update(TENSORA_NUM_THREADS="1", **changes)
    return kept


def run(command, **changes):
    start = time.monotonic()
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60,
                              env=environment(**changes))
    except subprocess.TimeoutExpired as expired:
        parts = [(part or b"").decode(errors="replace") for part in (expired.stdout, expired.stderr)]
        raise AssertionError(f"{' '.join(words)} did not end within 60 s; its output:\n{''.join(parts)}") from None
    done.seconds = time.monotonic() - start
    done.output = done.stdout + done.stderr
    return done


def ranks_of(mark):
    """The processes of tensora-ranks that have this variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") == str(Path(arguments.ranks).resolve()) and \
                    mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            pass
    return found


def within(seconds, condition):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


class Jobs(unittest.TestCase):
    """What holds for every way to start the ranks."""

    backend = "local"

    def ranks(self, number, *what, **changes):
        options = what[0] if isinstance(what[0], list) else []
        words = what[1:] if options else what
        return run([arguments.cli, "launch", "-n", number, "--backend", self.backend, "--patience", "3", *options,
                    "--", arguments.ranks, *words], **changes)

    def test_collectives(self):
        for number in (1, 2, 3, 4):
            done = self.ranks(number, "check")
            self.assertEqual(done.returncode, 0, done.output)
            self.assertIn("all right", done.stdout)

    def test_disagreement(self):
        for about, texts in {"order": ("8 elements", "9 elements"), "size": ("8 elements", "9 elements"),
                             "dtype": ("float32", "int32"), "op": ("sum", "maximum"),
                             "call": ("all_reduce", "broadcast")}.items():
            done = self.ranks(3, about)
            self.assertNotEqual(done.returncode, 0, done.output)
            for rank in range(3):
                line = next((l for l in done.output.splitlines() if f"rank {rank}: group world" in l), "")
                for text in ("different things", "ranks.cpp", *texts):
                    self.assertIn(text, line, done.output)
        done = self.ranks(3, "mode")
        self.assertEqual(done.returncode, 0, done.output)

    def test_death_is_named_within_two_seconds(self):
        for fault, said in {"kill": "rank 2 on .* ended without notice", "exit": "rank 2 on .* ended without notice",
                            "throw": "rank 2 failed: out of luck",
                            "memory": "rank 2 failed: .*memory"}.items():
            done = self.ranks(3, fault)
            self.assertNotEqual(done.returncode, 0, done.output)
            known = re.findall(r"rank (\d) knew after ([\d.]+) s: (.*)", done.output)
            ranks = {rank for rank, _, _ in known}
            # mpirun may end the job before every rank has said so.
            self.assertTrue(ranks == {"0", "1"} or (self.backend == "mpi" and ranks), done.output)
            for _, seconds, text in known:
                self.assertLess(float(seconds), 2, done.output)
                self.assertRegex(text, said, done.output)

    def test_a_rank_that_leaves_is_missed(self):
        done = self.ranks(3, "leave")
        self.assertIn("rank 2 ended and will not come to barrier()", done.output)

    def test_a_stopped_rank_is_named_then_the_limit_passes(self):
        done = self.ranks(3, "stop", 2, 0.5)
        self.assertIn("has waited 0.5 s in group world for rank 2 to come to all_reduce", done.output)
        self.assertIn("rank 2 did not come within 2 s", done.output)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(done.seconds, 20)

    def test_a_slow_rank_is_named_and_the_job_goes_on(self):
        done = self.ranks(3, "late", 30, 0.5)
        self.assertEqual(done.returncode, 0, done.output)
        self.assertIn("has waited 0.5 s in group world for rank 2 to come to all_reduce", done.output)
        self.assertIn("all came in the end", done.stdout)

    def test_no_process_outlives_a_launcher_that_is_killed(self):
        mark = f"TEST_JOB={os.getpid()}-{self.backend}"
        launcher = subprocess.Popen([arguments.cli, "launch", "-n", "2", "--backend", self.backend, "--",
                                     arguments.ranks, "sleep"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=environment(**dict([mark.split("=")])))
        try:
            self.assertTrue(within(30, lambda: len(ranks_of(mark)) == 2))
        finally:
            launcher.send_signal(signal.SIGKILL)
            launcher.wait()
        self.assertTrue(within(20, lambda: not ranks_of(mark)), ranks_of(mark))

    def test_ranks_behind_a_shell_notice_a_launcher_that_is_killed(self):
        mark = f"TEST_JOB={os.getpid()}-{self.backend}-shell"
        launcher = subprocess.Popen([arguments.cli, "launch", "-n", "2", "--backend", self.backend, "--", "sh", "-c",
                                     '"$@"; true', "sh", arguments.ranks, "forever"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, env=environment(**dict([mark.split("=")])))
        try:
            self.assertTrue(within(30, lambda: len(ranks_of(mark)) == 2))
        finally:
            launcher.send_signal(signal.SIGKILL)
            launcher.wait()
        self.assertTrue(within(20, lambda: not ranks_of(mark)), ranks_of(mark))

    def test_training_has_the_bits_of_ranks_in_threads(self):
        wanted = run([arguments.ranks, "train-threads"])
        self.assertEqual(wanted.returncode, 0, wanted.output)
        lines = wanted.stdout.splitlines()
        self.assertEqual(len(lines), 5, wanted.output)
        done = self.ranks(3, "train")
        self.assertEqual(done.returncode, 0, done.output)
        for line in lines:
            self.assertIn(line, done.stdout)


class Local(Jobs):
    def test_first_cause_is_printed_last_and_is_the_status(self):
        for fault, status, said in (("kill", 128 + 9, "rank 2 was killed by signal 9"),
                                    ("exit", 7, "rank 2 ended with status 7"),
                                    ("throw", 1, "rank 2 ended with status 1")):
            done = self.ranks(3, fault)
            self.assertEqual(done.returncode, status, done.output)
            self.assertIn(said, done.stderr.strip().splitlines()[-1])

    def test_restarts(self):
        done = self.ranks(3, ["--restarts", "1"], "kill-once")
        self.assertEqual(done.returncode, 0, done.output)
        self.assertIn("starting again (1 of 1)", done.stderr)
        self.assertEqual(self.ranks(2, ["--restarts", "1"], "exit").returncode, 7)

    def test_small_shared_memory(self):
        namespace = ["unshare", "--mount", "sh", "-c"]
        probe = run([*namespace, "mount -t tmpfs -o size=1m tmpfs /dev/shm"])
        if probe.returncode != 0:
            self.skipTest(f"a small /dev/shm cannot be mounted here: {probe.output}")
        done = run([*namespace, 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh", arguments.cli, "launch",
                    "-n", "2", "--", arguments.ranks, "check"])
        self.assertNotEqual(done.returncode, 0, done.output)
        self.assertRegex(done.output, r"/dev/shm has [01] MiB left, and the ranks of this host need \d+ MiB")
        self.assertIn("--shm-size", done.output)
        self.assertLess(done.seconds, 30)

    def test_the_port_is_taken(self):
        with socket.socket() as other:  # which accepts connections and says nothing
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = str(other.getsockname()[1])
            place = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            words = [arguments.ranks, "check", "10", "5", "1"]
            done = run(words, RANK="0", **place)
            self.assertEqual(done.returncode, 1, done.output)
            self.assertIn(f"cannot listen on 127.0.0.1 port {port}: Address already in use", done.output)
            done = run(words, RANK="1", **place)
            self.assertEqual(done.returncode, 1, done.output)
            self.assertIn(f"rank 1: rank 0 at 127.0.0.1 port {port} did not answer within 1 s", done.output)
        done = run(words, RANK="1", **place)
        self.assertIn(f"rank 0 could not be reached at 127.0.0.1 port {port} within 1 s", done.output)

    def test_nothing_stays_in_shared_memory(self):
        left = set(Path("/dev/shm").glob("tensora-*"))
        program = "touch /dev/shm/tensora-$(echo $TENSORA_TOKEN | tr -c 'a-zA-Z0-9\\n' _)-x; kill -9 $$"
        done = run([arguments.cli, "launch", "-n", "2", "--restarts", "1", "--", "sh", "-c", program])
        self.assertEqual(done.returncode, 137, done.output)
        # Another job on this machine may be about to begin.
        self.assertTrue(within(10, lambda: set(Path("/dev/shm").glob("tensora-*")) <= left))

    def test_output_has_the_rank_before_it(self):
        done = run([arguments.cli, "launch", "-n", "2", "--", "sh", "-c", "echo one; echo two"])
        self.assertEqual(sorted(done.stdout.split("\n")), ["", "[0] one", "[0] two", "[1] one", "[1] two"])
        self.assertEqual(run([arguments.cli, "launch", "-n", "2", "--", "no-such-program"]).returncode, 127)

    def test_options_of_other_implementations_of_mpirun(self):
        for version, wanted, unknown in (("mpirun (Open MPI) 4.1.6", ["--oversubscribe", "--tag-output"], ["--map-by"]),
                                         ("mpirun (Open MPI) 5.0.3", ["--map-by :OVERSUBSCRIBE", "--output tag"],
                                          ["--oversubscribe", "--tag-output"]),
                                         ("HYDRA build details:", ["-prepend-rank", "-genvlist"], ["--bind-to", "-x"])):
            with tempfile.TemporaryDirectory() as folder:
                program = Path(folder) / "mpirun"
                program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" || printf "%s " "$@"\n')
                program.chmod(0o755)
                done = run([arguments.cli, "launch", "-n", "2", "--backend", "mpi", "--", "prog", "word"],
                           PATH=f"{folder}:{os.environ['PATH']}")
            self.assertEqual(done.returncode, 0, done.output)
            self.assertTrue(done.stdout.startswith("-n 2 ") and done.stdout.strip().endswith("prog word"), done.stdout)
            for words in wanted:
                self.assertIn(f" {words} ", done.stdout)
            for words in unknown:
                self.assertNotIn(f" {words} ", done.stdout)

    def test_an_mpirun_that_hangs_behind_its_ranks_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "mpirun"
            program.write_text('#!/bin/bash\n[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.6" && exit\n'
                               "trap '' TERM; sleep 1.5; while :; do :; done\n")
            program.chmod(0o755)
            done = run([arguments.cli, "launch", "-n", "2", "--backend", "mpi", "--patience", "0.3", "--", "prog"],
                       PATH=f"{folder}:{os.environ['PATH']}")
        self.assertIn("mpirun did not end after the ranks had", done.stderr)
        self.assertEqual(done.returncode, 1, done.output)
        self.assertLess(done.seconds, 20)

    def test_contradicting_variables(self):
        done = run([arguments.ranks, "check"], RANK="0", WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1",
                   OMPI_COMM_WORLD_SIZE="2")
        self.assertIn("torchrun says rank 0 of 2; Open MPI says rank 1 of 2", done.stderr)
        self.assertIn("WORLD_SIZE is not", run([arguments.ranks, "check"], RANK="0").stderr)
        for port in ("0", "65536", "99999999999", "1x"):
            done = run([arguments.ranks, "check"], RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            self.assertIn(f'MASTER_PORT must be a number from 1 to 65535, got "{port}"', done.stderr)
        self.assertIn("TENSORA_MASTER", run([arguments.ranks, "check"], RANK="0", WORLD_SIZE="2").stderr)

    def test_variables_of_torchrun(self):
        common = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
        other = subprocess.Popen([arguments.ranks, "check"], env=environment(RANK="1", **common))
        done = run([arguments.ranks, "check"], RANK="0", **common)
        self.assertEqual((done.returncode, other.wait(60)), (0, 0), done.output)


class Mpi(Jobs):
    backend = "mpi"

    def test_between_hosts(self):
        done = self.ranks(3, "check", TENSORA_MPI_WINDOWS="0")
        self.assertEqual(done.returncode, 0, done.output)
        done = self.ranks(3, "order", TENSORA_MPI_WINDOWS="0")
        self.assertIn("the ranks called different things", done.output)

    def test_two_hosts(self):
        """Network namespaces with a name each, which means loopback on the host itself, as on Debian."""
        hosts, names = ("a", "b"), [f"tensora-{os.getpid()}-{host}" for host in ("a", "b")]
        with tempfile.TemporaryDirectory() as folder:
            def write(name, text):
                (Path(folder) / name).write_text(text)
                (Path(folder) / name).chmod(0o755)
                return Path(folder) / name
            for own, host in enumerate(hosts):
                known = [f"10.9.7.{i + 1} node-{other}" for i, other in enumerate(hosts) if other != host]
                write(host, "\n".join(["127.0.0.1 localhost", f"127.0.1.1 node-{host}", *known, ""]))
            # What mpirun calls instead of ssh, with options, the host and the command.
            agent = write("agent", '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\n'
                          f'exec ip netns exec {names[1]} unshare --mount --uts sh -c "hostname node-b; '
                          f'mount --bind {folder}/b /etc/hosts; $*"\n')
            places = write("places", "node-a slots=2\nnode-b slots=2\n")
            network = {f"OMPI_MCA_{part}_tcp_if_include": "10.9.7.0/24" for part in ("btl", "oob")}
            start = ["ip", "netns", "exec", names[0], "unshare", "--mount", "--uts", "sh", "-c",
                     f'hostname node-a; mount --bind {folder}/a /etc/hosts; exec mpirun "$@"', "sh", "-n", 3,
                     "--hostfile", places, "--map-by", "node"]
            setup = [f"ip netns add {name}" for name in names]
            setup.append(f"ip link add ve{os.getpid()} netns {names[0]} type veth peer name vf{os.getpid()} netns {names[1]}")
            for i, (name, link) in enumerate(zip(names, ("ve", "vf"))):
                setup += [f"ip -n {name} addr add 10.9.7.{i + 1}/24 dev {link}{os.getpid()}",
                          f"ip -n {name} link set lo up", f"ip -n {name} link set {link}{os.getpid()} up"]
            changes = dict(OMPI_MCA_plm_rsh_agent=str(agent), OMPI_MCA_btl="self,vader,tcp", **network)
            try:
                probe = run(["sh", "-c", " && ".join(setup)])
                probe = probe if probe.returncode else run([*start, "hostname"], **changes)
                if sorted(probe.stdout.split()) != ["node-a", "node-a", "node-b"]:
                    self.skipTest(f"two hosts cannot be simulated here: {probe.output}")
                done = run([*start, arguments.ranks, "mode"], **changes)
            finally:
                for name in names:
                    run(["sh", "-c", f"ip netns del {name}"])
        self.assertEqual(done.returncode, 0, done.output)

    def test_one_rank_that_throws(self):
        done = self.ranks(1, "throw")
        self.assertIn("rank 0: out of luck", done.output)
        self.assertEqual(done.returncode, 1, done.output)

    def test_by_mpirun_itself(self):
        alone = [] if shutil.which("ssh") else ["--mca", "plm", "isolated"]
        done = run(["mpirun", *alone, "-n", 2, "--oversubscribe", arguments.ranks, "check"])
        self.assertEqual(done.returncode, 0, done.output)


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=["local", "mpi"])
    parser.add_argument("--cli", required=True, help="the program tensora")
    parser.add_argument("--ranks", required=True, help="the program tensora-ranks")
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    if arguments.backend == "mpi" and (not shutil.which("mpirun") or
                                       not list(Path(arguments.ranks).parents[1].glob("lib/libtensora_mpi.so"))):
        print("skipped: there is no MPI (Debian and Ubuntu: libopenmpi-dev, openmpi-bin)")
        sys.exit(SKIPPED)
    if arguments.backend == "mpi":
        probe = run(["mpirun", "-n", 2, "--version"]), run([arguments.cli, "launch", "-n", 2, "--backend", "mpi", "--",
                                                           "true"])
        if probe[1].returncode != 0:
            print(f"skipped: mpirun cannot start the program `true` twice on this machine:\n{probe[0].output}"
                  f"{probe[1].output}")
            sys.exit(SKIPPED)
    kind = Local if arguments.backend == "local" else Mpi
    names = arguments.tests or unittest.TestLoader().getTestCaseNames(kind)
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(kind(name) for name in names))
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
