"""Under a limit of the address space (ulimit -v) calls of libraries end: no crash, no endless loop."""
import os
import subprocess
import sys

import pytest

import tensora

PROGRAM = """
import resource, sys
import tensora
F = tensora.nn.functional
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for work in (lambda: tensora.linalg.svd(tensora.randn(60, 60)),
             lambda: tensora.linalg.qr(tensora.randn(60, 60)),
             lambda: tensora.randn(300, 300) @ tensora.randn(300, 300),
             lambda: F.conv2d(tensora.randn(2, 32, 14, 14), tensora.randn(64, 32, 3, 3), padding=1)):
    try:
        work()
    except RuntimeError as error:
        assert "memory" in str(error) or "address space" in str(error), error
print("done")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@pytest.mark.parametrize("megabytes", [20, 80, 300, 2000])
def test_library_calls_end(megabytes):
    search = os.path.dirname(os.path.dirname(tensora.__file__))
    environment = {**os.environ, "PYTHONPATH": search, "TENSORA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(megabytes)], capture_output=True, text=True,
                          timeout=120, env=environment)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr
