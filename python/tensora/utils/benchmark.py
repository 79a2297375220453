"""Measures how long statements take."""
import statistics
import timeit as _timeit


class Measurement:
    """Times of a statement; `median`, `mean` and `iqr` are seconds per run."""

    def __init__(self, number_per_run, raw_times, label=None, sub_label=None, description=None):
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.label, self.sub_label, self.description = label, sub_label, description

    times = property(lambda self: [t / self.number_per_run for t in self.raw_times])
    median = property(lambda self: statistics.median(self.times))
    mean = property(lambda self: statistics.fmean(self.times))

    @property
    def iqr(self):
        times = self.times
        if len(times) < 2:
            return 0.0
        quarters = statistics.quantiles(times, n=4)
        return quarters[2] - quarters[0]

    def __repr__(self):
        unit, scale = next(((u, s) for u, s in (("s", 1), ("ms", 1e3), ("us", 1e6)) if self.median * s >= 1), ("ns", 1e9))
        name = " ".join(filter(None, (self.label, self.sub_label, self.description))) or "statement"
        return (f"<Measurement: {name}>\n  Median: {self.median * scale:.2f} {unit}\n  IQR: {self.iqr * scale:.2f} {unit}\n"
                f"  {len(self.raw_times)} measurements, {self.number_per_run} runs per measurement")


def _synchronized():
    """The time, when the GPU has finished what was queued."""
    from .. import cuda
    if cuda.is_available():
        cuda.synchronize()
    return _timeit.default_timer()


class Timer:
    """timeit.Timer that waits for the GPU and uses one thread unless told otherwise."""

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=_synchronized, globals=None, label=None,
                 sub_label=None, description=None, env=None, num_threads=1, language="python"):
        if language not in ("python", "py") or global_setup:
            raise NotImplementedError("utils.benchmark.Timer: statements are Python; C++ (global_setup) is not supported")
        self._names = {"label": label, "sub_label": sub_label, "description": description or env}
        self._threads = num_threads
        self._timer = _timeit.Timer(stmt, setup, timer, dict(globals or {}))

    def _with_threads(self, body):
        from .. import _C
        before = _C.get_num_threads()
        _C.set_num_threads(self._threads)
        try:
            return body()
        finally:
            _C.set_num_threads(before)

    def timeit(self, number=1000000):
        """One measurement of `number` runs."""
        def measure():
            self._timer.timeit(max(number // 100, 1))
            return self._timer.timeit(number)
        return Measurement(number, [self._with_threads(measure)], **self._names)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measurements of equally many runs until `min_run_time` seconds have passed."""
        def measure():
            number = 1
            while self._timer.timeit(number) < min_run_time / 1000 and number < 1 << 30:
                number *= 10
            times, total = [], 0.0
            while total < min_run_time:
                times.append(self._timer.timeit(number))
                total += times[-1]
                if callback is not None:
                    callback(number, times[-1])
            return number, times
        return Measurement(*self._with_threads(measure), **self._names)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """blocked_autorange, repeated until the times differ by less than `threshold` of the median."""
        spent, found = 0.0, None
        while spent < max_run_time:
            new = self.blocked_autorange(callback, max(min_run_time, 0.05))
            times = new.raw_times if found is None or found.number_per_run != new.number_per_run \
                else found.raw_times + new.raw_times
            found = Measurement(new.number_per_run, times, **self._names)
            spent += sum(new.raw_times)
            if len(times) > 3 and found.iqr < threshold * found.median:
                break
        return found

    def collect_callgrind(self, *args, **kwargs):
        raise NotImplementedError("utils.benchmark.Timer: Callgrind is not supported")


class Compare:
    """A table of measurements."""

    def __init__(self, results):
        self._results = [*results]

    def extend_results(self, results):
        self._results += results

    def __str__(self):
        rows = [(m.label or "", m.sub_label or "", m.description or "", f"{m.median * 1e6:.1f} us") for m in self._results]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def print(self):
        print(self)
