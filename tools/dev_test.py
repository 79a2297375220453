"""Proves what ./dev promises, with stand-ins for cmake, ninja, ctest, apt-get and dpkg-query that keep a log."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOBODY = 65534
REAL = ["bash", "env", "dirname", "readlink", "nproc", "grep", "cat", "rm", "sed", "sort", "paste", "uname",
        "realpath", "basename"]
PRESENT = ["g++", "python3", "clang-format-16", "clang-tidy-16"]
LOGGING = '#!/bin/bash\necho "${0##*/} $*" >>"$LOG"\n'
STAND_INS = {
    **{name: LOGGING for name in PRESENT},
    "cmake": LOGGING + '[[ $* != *--preset* ]] || { mkdir -p "$TREE/build"; touch "$TREE/build/build.ninja"; \n'
                       'echo "CMAKE_HOME_DIRECTORY:INTERNAL=$TREE" >"$TREE/build/CMakeCache.txt"; }\n',
    "ctest": LOGGING,
    "ninja": LOGGING + '[[ $* != *"-t query"* || $* == *-core || $CUDA$* == yes*cuda-tests ]] || exit 1\n'
                       '[[ $* != *"-t targets"* ]] || echo "tensora-bench-core: phony"\n',
    "dpkg-query": LOGGING + 'shift 3\nfor p in "$@"; do [[ " $MISSING " == *" $p "* ]] || echo "installed $p"; done\n',
    "apt-get": LOGGING + '[[ $* != *install* || ! -e $TREE/stale ]] || { rm "$TREE/stale"; exit 100; }\n'
                         '[[ -z $APT_BROKEN ]]\n',
    "mkdir": '#!/bin/bash\nexec /bin/mkdir "$@"\n',
    "touch": '#!/bin/bash\nexec /bin/touch "$@"\n',
}


class Dev(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tensora dev "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree, self.bin, self.log = self.folder / "the tree", self.folder / "bin", self.folder / "log"
        self.tree.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "dev", self.tree)
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name))
        for name, text in STAND_INS.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        program = self.tree / "build/bin/tensora-bench-core"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/bash\necho "bench $* in $PWD"\n')
        program.chmod(0o755)

    def dev(self, *arguments, user=None, **environment):
        """Runs ./dev from another folder; returns status, output and the log of the stand-ins."""
        self.log.write_text("")
        self.log.chmod(0o666)
        environment = {"PATH": str(self.bin), "LOG": str(self.log), "TREE": str(self.tree), **environment}
        if os.geteuid() != 0:
            (self.bin / "sudo").write_text('#!/bin/bash\n[[ $1 == -n ]] || exec "$@"\n')
            (self.bin / "sudo").chmod(0o755)
        done = subprocess.run([str(self.tree / "dev"), *arguments], env=environment, cwd=self.folder, user=user,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr, self.log.read_text()

    def test_unknown_command(self):
        self.assertEqual(self.dev("frobnicate"),
                         (2, "dev: there is no command 'frobnicate'; './dev help' lists the commands\n", ""))

    def test_help(self):
        status, output, log = self.dev("help")
        self.assertEqual((status, log), (0, ""))
        for command in ["build", "test", "demo", "bench", "gpu-test", "lint", "format", "clean", "help"]:
            self.assertIn(f"\n  {command} ", output)

    def test_configures_once_and_never_calls_apt_when_all_is_there(self):
        status, output, log = self.dev("build")
        self.assertEqual(status, 0, output)
        self.assertIn("cmake --preset release\n", log)
        self.assertIn(f"cmake --build {self.tree}/build --parallel", log)
        self.assertNotIn("apt-get", log)
        self.assertNotIn("--preset", self.dev("build")[2])

    def test_configures_afresh_in_a_copied_tree(self):
        self.dev("build")
        (self.tree / "build/CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        self.assertIn("cmake --preset release --fresh\n", self.dev("build")[2])

    def test_presets_and_ctest_arguments(self):
        _, _, log = self.dev("test", "--asan", "-R", "ops")
        self.assertIn("cmake --preset asan\n", log)
        self.assertIn(f"ctest --test-dir {self.tree}/build/asan ", log)
        self.assertTrue(log.endswith(" -R ops\n"), log)

    def test_gpu_test(self):
        status, output, log = self.dev("gpu-test")
        self.assertEqual(status, 1)
        self.assertIn("has no CUDA backend", output)
        script = self.tree / "tests/cuda/run_on_gpu.sh"
        script.parent.mkdir(parents=True)
        script.write_text('echo "script $* OUT=$OUT" >>"$LOG"\n')
        status, output, log = self.dev("gpu-test", "--pack", "a bundle", CUDA="yes")
        self.assertEqual(status, 0, output)
        self.assertIn("--target tensora-cuda-tests tensora-ops ", log)
        self.assertTrue(log.endswith(f"script pack {self.tree}/build {self.folder}/a bundle OUT=\n"), log)
        self.assertEqual(self.dev("gpu-test", "--pack", "b", "ops", CUDA="yes")[0], 2)
        status, output, log = self.dev("gpu-test", "ops", CUDA="yes")
        self.assertEqual(status, 0, output)
        self.assertIn("no NVIDIA GPU here", output)
        (self.bin / "nvidia-smi").write_text("#!/bin/bash\necho 'GPU 0: one'\n")
        (self.bin / "nvidia-smi").chmod(0o755)
        log = self.dev("gpu-test", "ops", "launch", CUDA="yes")[2]
        bundle = f"{self.tree}/build/gpu_bundle.tar.gz"
        self.assertTrue(log.endswith(f"script {bundle} ops launch OUT={self.tree}/build/gpu_test\n"), log)

    def test_installs_what_is_missing_and_says_why(self):
        status, output, log = self.dev("build", MISSING="libgtest-dev")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"libgtest-dev +GoogleTest")
        self.assertRegex(log, r"apt-get .*install -y --no-install-recommends libgtest-dev\n")
        self.assertNotIn("clang", log)

    def test_updates_the_package_lists_after_a_failure(self):
        (self.tree / "stale").touch()
        status, output, log = self.dev("build", MISSING="libgtest-dev")
        self.assertEqual(status, 0, output)
        self.assertRegex(log, r"install -y .*\n.* update\n.* install -y ")

    def test_names_the_command_when_apt_fails(self):
        status, output, _ = self.dev("build", MISSING="libgtest-dev", APT_BROKEN="1")
        self.assertEqual(status, 1)
        self.assertIn("please run as root: apt-get update && apt-get install -y", output)

    def test_names_the_command_where_it_may_not_install(self):
        status, output, log = self.dev("build", MISSING="libgtest-dev", TENSORA_NO_INSTALL="1")
        self.assertEqual(status, 1)
        self.assertIn("install -y --no-install-recommends libgtest-dev", output)
        self.assertNotIn("apt-get", log)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_neither_root_nor_sudo(self):
        self.folder.chmod(0o755)
        status, output, log = self.dev("build", user=NOBODY, MISSING="libgtest-dev")
        self.assertEqual(status, 1)
        self.assertIn("not root and there is no sudo here; please run as root: apt-get update", output)
        self.assertNotIn("apt-get", log)

    def test_bench_passes_arguments_and_keeps_the_folder(self):
        status, output, log = self.dev("bench", "core", "--json", "x.json")
        self.assertEqual(status, 0, output)
        self.assertIn("--target tensora-bench-core\n", log)
        self.assertIn(f"bench --json x.json in {self.folder}\n", output)

    def test_unknown_benchmark(self):
        status, output, _ = self.dev("bench", "nothing")
        self.assertEqual(status, 2)
        self.assertIn("there is no benchmark 'nothing'; there are: core", output)

    def test_clean(self):
        self.assertEqual(self.dev("clean")[0], 0)
        self.assertFalse((self.tree / "build").exists())


if __name__ == "__main__":
    sys.exit(unittest.main())
