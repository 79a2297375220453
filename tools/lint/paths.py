"""No file tells on which machine it was written."""

import re
from pathlib import Path

from common import Finding, line_of

NAME = "paths"
# Put together from parts, so that this file does not mention them either.
_MACHINE_PATH = re.compile(r"(?<![\w.$}-])/(?:" + "|".join(["work", "root", "home/" + r"\w+"]) + ")/")
_BINARY = {".png", ".jpg", ".gif", ".ico", ".gz", ".zip", ".bin", ".npy", ".npz", ".safetensors", ".gguf", ".pdf"}


def run(tree):
    findings = []
    for path in tree.files:
        if Path(path).suffix in _BINARY:
            continue
        text = tree.text(path)
        for match in _MACHINE_PATH.finditer(text):
            if not tree.exceptions.allows(NAME, path):
                findings.append(
                    Finding(path, line_of(text, match.start()), f"'{match.group(0)}' is a path of one machine"))
    return findings
