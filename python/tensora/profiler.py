"""Where the time goes."""
import enum

from . import _C


class ProfilerActivity:
    CPU, CUDA, XPU, MTIA, PrivateUse1 = "cpu", "cuda", "xpu", "mtia", "privateuse1"


class ProfilerAction(enum.Enum):
    """What a step of a schedule does."""
    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """The function step → action of a cycle: wait, warm up, record. `repeat` cycles, or any number if it is 0.

    >>> plan = tensora.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError("profiler.schedule: expected counts that are not negative, and active > 0")

    def action(step):
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle, at = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """The function for `on_trace_ready` that writes a Chrome trace into a folder."""
    if use_gzip:
        raise NotImplementedError("profiler.tensorboard_trace_handler: use_gzip=True is not supported")

    def write(profile):
        import os
        import socket
        import time
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        profile.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}.pt.trace.json"))
    return write


def kineto_available():
    """Whether PyTorch's own tracing library is there: it is not; `profile` is Tensora's."""
    return False


def supported_activities():
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if _C._is_available("cuda") else set())


def _never(step):
    del step
    return ProfilerAction.NONE


class profile:
    """Collects the time ranges of ops in a scope.

    >>> with tensora.profiler.profile() as p:
    ...     _ = tensora.ones(4) + 1
    >>> "add" in p.table()
    True
    """

    def __init__(self, enabled=True, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, with_stack=False,
                 profile_memory=False, with_flops=False, with_modules=False):
        if not enabled:
            schedule = _never
        self._ready, self._running, self._schedule, self.step_num = on_trace_ready, None, schedule, 0
        self._table, self._trace = "", b'{"traceEvents": []}'

    def _action(self):
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def start(self):
        """Begins to record, if the schedule says so."""
        if self._running is None and self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._running = _C._Profiler()

    def stop(self):
        """Ends the recording, and hands it to on_trace_ready."""
        if self._running is None:
            return
        import os
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self._running.write_chrome_trace(path)
            with open(path, "rb") as file:
                self._trace = file.read()
        self._table = self._running.table(1 << 20)
        self._running = None  # which ends it
        if self._ready:
            self._ready(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def step(self):
        """Marks the end of an iteration: a schedule then begins or ends a recording."""
        before = self._action()
        self.step_num += 1
        if self._schedule is None:
            return
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        self.start()

    def table(self, sort_by=None, row_limit=20):
        """Ops by the time spent in them, whatever `sort_by` names."""
        text = self._table if self._running is None else self._running.table(1 << 20)
        lines = text.splitlines(keepends=True)
        return "".join(lines if row_limit < 0 else lines[:row_limit + 1])

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """The profile itself: its table has one row per op."""
        return self

    def export_chrome_trace(self, path):
        """Writes a file for chrome://tracing."""
        with open(path, "wb") as file:
            file.write(self._trace)


class record_function:
    """A named scope; ranges of one's own are part of the C++ interface."""

    def __init__(self, name, args=None):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class EventList(list):
    """PyTorch's type of a list of events; `key_averages()` gives the profile itself here."""

    def table(self, sort_by=None, row_limit=100):
        raise NotImplementedError("profiler.EventList.table: use the table() of the profile")


class emit_nvtx:
    """Ranges for NVIDIA's tools around every op are not made from Python."""

    def __enter__(self):
        raise NotImplementedError("profiler.emit_nvtx: use tensora.profiler.profile")

    def __exit__(self, *error):
        return None


emit_itt = emit_nvtx
