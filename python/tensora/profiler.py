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
                 profile_memory=False, with_flops=False, with_modules=False):
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

    def table(self, sort_by=None, row_limit=20):
        """Ops by the time spent in them, whatever `sort_by` names."""
        return self._result.table(row_limit)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """The profile itself: its table has one row per op."""
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
