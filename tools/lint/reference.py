"""docs/reference is what ./dev docs writes from the headers."""

import subprocess
import sys

from common import Finding

NAME = "reference"
TOOL = "tools/reference.py"


def run(tree):
    if TOOL not in tree.files:
        return []
    done = subprocess.run([sys.executable, str(tree.root / TOOL), "--check"], capture_output=True, text=True,
                          check=False)
    return [] if done.returncode == 0 else [Finding(TOOL, 1, (done.stdout or done.stderr).strip())]
