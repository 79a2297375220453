"""mypy and pyright accept what correct programs do, and report the mistakes of wrong ones."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import tensora

PACKAGE = str(pathlib.Path(tensora.__file__).parent.parent)
PROGRAMS = pathlib.Path(__file__).parent / "typing_programs"
CORRECT = sorted(path.name for path in PROGRAMS.glob("*.py") if path.name != "wrong.py")


@pytest.fixture
def folder(tmp_path):
    for path in PROGRAMS.glob("*.py"):
        shutil.copy(path, tmp_path)
    return tmp_path


def mypy(folder, *names):
    """Lines of the programs that mypy reports, with what it says."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", str(folder / "cache"), "--follow-imports", "silent",
                           *names], cwd=folder, env=dict(os.environ, MYPYPATH=PACKAGE), capture_output=True, text=True,
                          timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(\w+\.py):(\d+): error: (.*)", done.stdout, re.M)
    return [(int(line), text) for name, line, text in found if name in names]


def pyright(folder, *names):
    """Lines of the programs that pyright reports, with what it says."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    if shutil.which("node") is None:
        pytest.skip("pyright needs node, which is not installed")
    done = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *names], cwd=folder,
                          env=dict(os.environ, PYTHONPATH=PACKAGE), capture_output=True, text=True, timeout=300)
    if " errors," not in done.stdout and " error," not in done.stdout:
        pytest.skip(f"pyright does not run here: {done.stderr[-200:]}")
    return [(int(line), text) for line, text in re.findall(r"\.py:(\d+):\d+ - error: (.*)", done.stdout)]


@pytest.mark.parametrize("checker", (mypy, pyright))
def test_correct_programs_pass(folder, checker):
    assert len(CORRECT) >= 3
    assert checker(folder, *CORRECT) == []


@pytest.mark.parametrize("checker", (mypy, pyright))
def test_mistakes_are_reported(folder, checker):
    lines = (PROGRAMS / "wrong.py").read_text().splitlines()
    ending = ("# wrong", "# wrong for mypy") if checker is mypy else ("# wrong",)
    wanted = {number for number, line in enumerate(lines, 1) if line.endswith(ending)}
    found = {number for number, _ in checker(folder, "wrong.py")}
    assert len(wanted) > 100
    assert found == wanted, "\n".join(f"{number}: {lines[number - 1]}" for number in sorted(found ^ wanted))


def test_correct_programs_are_programs():
    """They compile, and import what they name; what they compute is tested elsewhere."""
    for name in CORRECT:
        code = (PROGRAMS / name).read_text()
        compile(code, name, "exec")
        for line in re.findall(r"^(?:from tensora|import tensora).*$", code, re.M):
            exec(line, {})
