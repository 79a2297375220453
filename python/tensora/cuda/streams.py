"""Streams and events: queues of work on a GPU, and markers in them."""
from .. import _C
from . import _index, _native


class Stream:
    """A queue of work; work of different streams may overlap."""

    def __init__(self, device=None, priority=0):
        self._stream = _native().Stream(_index(device))

    @classmethod
    def _of(cls, native):
        stream = cls.__new__(cls)
        stream._stream = native
        return stream

    device = property(lambda self: _C.device("cuda", self._stream.index))
    device_index = property(lambda self: self._stream.index)
    cuda_stream = property(lambda self: self._stream.handle, doc="The cudaStream_t, as a number.")

    def synchronize(self):
        """Waits until everything queued so far is done."""
        self._stream.synchronize()

    def query(self):
        """Whether everything queued is done."""
        return self._stream.is_idle()

    def wait_event(self, event):
        """What is queued from now on starts after the event."""
        if event._event is not None:  # never recorded: nothing to wait for
            self._stream.wait(event._event)

    def wait_stream(self, stream):
        """What is queued from now on starts after what the other stream has now."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Sets a marker after what is queued now."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, Stream) and self._stream == other._stream

    def __hash__(self):
        return hash((self._stream.index, self._stream.handle))

    def __repr__(self):
        return f"<tensora.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self):
        self._scopes = getattr(self, "_scopes", [])
        self._scopes.append(_native().StreamGuard(self._stream))
        return self

    def __exit__(self, *error):
        self._scopes.pop()  # its end restores what was


class ExternalStream(Stream):
    def __init__(self, stream_ptr, device=None, **ignored):
        raise NotImplementedError("cuda.ExternalStream: make a Stream here and give its cuda_stream to the other library")


class Event:
    """A marker in a stream.

    The CUDA event is made by the first `record`, on the device of the stream that it marks.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess:
            raise NotImplementedError("cuda.Event: events cannot be shared between processes")
        _native()
        self._timing = enable_timing
        self._event = None

    def record(self, stream=None):
        """Sets the marker after what is queued now, on the stream in use unless told otherwise."""
        stream = current_stream() if stream is None else stream
        if self._event is None:
            self._event = _native().Event(stream.device_index, self._timing)
        self._event.record(stream._stream)

    def wait(self, stream=None):
        """What is queued on the stream from now on starts after the marker."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self):
        """Whether the work before the marker is done."""
        return self._event is None or self._event.is_done()

    def synchronize(self):
        """Waits for the marker."""
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds between two markers that were reached."""
        if not self._timing or not end_event._timing:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return end_event._event.milliseconds_since(self._event)


def current_stream(device=None):
    """The stream on which this thread queues its work; the default one unless a scope says otherwise."""
    return Stream._of(_native().Stream.current(_index(device)))


def default_stream(device=None):
    """The stream that a thread uses if it says nothing."""
    return Stream._of(_native().Stream.of_device(_index(device)))


class stream:
    """Makes a stream the one in use within a scope; None changes nothing."""

    def __init__(self, stream):
        self._stream = stream

    def __enter__(self):
        return self._stream.__enter__() if self._stream is not None else None

    def __exit__(self, *error):
        if self._stream is not None:
            self._stream.__exit__(*error)


StreamContext = stream
