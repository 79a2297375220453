"""Calls that end the process, bypass the error type, or allocate outside the allocators."""

import re

from common import Finding, line_of

NAME = "banned"
_CALL = r"(?<![\w.>:])(?:std::|::)?"
RULES = [
    (_CALL + r"(?:abort|_?exit|quick_exit|terminate)\s*\(", "the library never ends the process; throw an Error"),
    (_CALL + r"assert\s*\(", "use check for a user's mistake and ensure for an invariant, not assert"),
    (_CALL + r"(?:f|v|vf)?printf\s*\(", "the library does not print with printf; use the logging of base/"),
    (_CALL + r"(?:malloc|calloc|realloc|aligned_alloc|posix_memalign)\s*\(",
     "raw memory comes from the allocator of the backend only"),
    (r"\bnew\s+(?:\([^)]*\)\s*)?[\w:<>, ]+\[", "new[] is raw memory: use a container or the allocator"),
    (_CALL + r"cuda(?:Malloc|MallocAsync|MallocManaged|MallocHost|HostAlloc)\s*\(",
     "device memory comes from the allocator of backend/cuda only"),
    (_CALL + r"cuda(?:DeviceSynchronize|StreamSynchronize|EventSynchronize|Memcpy|Memset)\s*\(",
     "the host waits for the device only through the counted functions of backend/cuda/runtime/wait.h"),
]
_COMPILED = [(re.compile(pattern), sentence) for pattern, sentence in RULES]


def run(tree):
    findings = []
    for path in tree.sources("tensora/"):
        code = tree.code(path)
        for pattern, sentence in _COMPILED:
            for match in pattern.finditer(code):
                word = re.search(r"\w+", match.group(0).replace("std::", "")).group(0)
                if not tree.exceptions.allows(NAME, f"{path}:{word}"):
                    findings.append(Finding(path, line_of(code, match.start()), f"{word}: {sentence}"))
    return findings
