"""Results that come later."""
import threading


class Future:
    """A value that one thread sets and others wait for.

    >>> future = tensora.futures.Future()
    >>> later = future.then(lambda done: done.value() + 1)
    >>> future.set_result(2)
    >>> later.wait()
    3
    """

    def __class_getitem__(cls, item):
        """Future[int], for annotations."""
        return cls

    def __init__(self, *, devices=None):
        if devices:
            raise NotImplementedError("futures.Future: devices is not supported; synchronize a stream instead")
        self._ready, self._lock = threading.Event(), threading.Lock()
        self._value = self._error = None
        self._callbacks = []

    def done(self):
        """Whether there is a value or an error."""
        return self._ready.is_set()

    def wait(self):
        """Waits for the value; raises the error if there is one."""
        self._ready.wait()
        return self.value()

    def value(self):
        """The value, which must be there."""
        if not self.done():
            raise RuntimeError("futures.Future.value: there is no value yet; call wait()")
        if self._error is not None:
            raise self._error
        return self._value

    def _settle(self, value, error):
        with self._lock:
            if self.done():
                raise RuntimeError("futures.Future: a value can be set once")
            self._value, self._error = value, error
            self._ready.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def set_result(self, result):
        """Sets the value and runs the callbacks."""
        self._settle(result, None)

    def set_exception(self, result):
        """Sets the error, which wait() raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._settle(None, result)

    def add_done_callback(self, callback):
        """Calls callback(self) when the value is set, at once if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback):
        """A future of what callback(self) returns."""
        result = Future()

        def run(done):
            try:
                result.set_result(callback(done))
            except Exception as error:
                result.set_exception(error)
        self.add_done_callback(run)
        return result


def wait_all(futures):
    """The values of all futures."""
    return [future.wait() for future in futures]


def collect_all(futures):
    """A future of the list of these futures, set when all of them are."""
    futures, result = list(futures), Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(futures)
    if not futures:
        result.set_result([])
    for future in futures:
        future.add_done_callback(one)
    return result
