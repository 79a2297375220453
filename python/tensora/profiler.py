"""Where the time goes."""
from . import _C


class ProfilerActivity:
    CPU, CUDA = "cpu", "cuda"


class profile:
    """Collects the time ranges of ops in a scope.

    >>> with tensora.profiler.profile() as p:
    ...     _ = tensora.ones(4) + 1
    >>> "add" in p.table()
    True
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, with_stack=False,
                 profile_memory=False, **_):
        self._ready, self._result = on_trace_ready, None

    def __enter__(self):
        self._result = _C._Profiler()
        return self

    def __exit__(self, *error):
        self._text = self._result.table(1000)
        if self._ready:
            self._ready(self)

    def step(self):
        """Marks the end of an iteration; nothing to do."""

    def table(self, row_limit=20, **_):
        """Ops by the time spent in them."""
        return self._result.table(row_limit)

    def key_averages(self, **_):
        return self

    def export_chrome_trace(self, path):
        """Writes a file for chrome://tracing."""
        self._result.write_chrome_trace(path)


class record_function:
    """A named scope; ranges of one's own are part of the C++ interface."""

    def __init__(self, name, args=None):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None
