"""CUDA graphs: work that is recorded once and started as a whole."""
from .. import _C
from . import _native, is_available, synchronize
from .streams import Stream, stream as stream_scope


class CUDAGraph:
    """What was recorded; `replay` starts it.

    The tensors made while recording keep their memory as long as the graph lives and hold the values of the
    latest replay; what the work reads from outside must be kept alive by the program.
    """

    def __init__(self, keep_graph=False):
        self._graph = _native().Graph(0)

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Begins to record what this thread queues."""
        self._graph.begin()

    def capture_end(self):
        """Ends recording."""
        self._graph.end()

    def replay(self):
        """Queues the recorded work on the stream in use."""
        self._graph.replay()

    def reset(self):
        """Forgets what was recorded."""
        self._graph = _native().Graph(0)

    def pool(self):
        """Each graph has memory of its own."""
        return (0, 0)

    @property
    def node_count(self):
        """Kernels, copies and fills."""
        return self._graph.node_count


class graph:
    """Records what the scope queues into a CUDAGraph; nothing runs before the first replay.

        g = tensora.cuda.CUDAGraph()
        with tensora.cuda.graph(g):
            y = model(x)
        g.replay()
    """

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="thread_local"):
        self._recorded = cuda_graph

    def __enter__(self):
        synchronize()
        self._recorded._graph.begin()

    def __exit__(self, kind, *error):
        if kind is None:
            self._recorded._graph.end()
        else:
            self._recorded._graph.abandon()


def graph_pool_handle():
    """Accepted where PyTorch wants one; each graph has memory of its own."""
    return (0, 0)


def is_current_stream_capturing():
    """Whether this thread records a graph."""
    return is_available() and _native().is_capturing()


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Callables that replay a graph of themselves: forward and backward, for the shapes of the samples.

    Gradients flow to the arguments and to the modules' parameters.
    """
    several = isinstance(callables, (tuple, list))
    made = [_graphed(function, arguments, num_warmup_iters)
            for function, arguments in (zip(callables, sample_args) if several else [(callables, sample_args)])]
    return tuple(made) if several else made[0]


def _graphed(function, samples, warmup):
    from .. import autograd
    samples = (samples,) if isinstance(samples, _C.Tensor) else tuple(samples)
    parameters = tuple(p for p in function.parameters() if p.requires_grad) if hasattr(function, "parameters") else ()
    inputs = tuple(x.detach().clone().requires_grad_(x.requires_grad) for x in samples)
    wanted = tuple(x for x in inputs if x.requires_grad) + parameters

    def gradients(outputs, given):
        pairs = [(o, g) for o, g in zip(outputs, given) if o.requires_grad]
        if not pairs or not wanted:
            return (None,) * len(wanted)
        return autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True)

    with stream_scope(Stream()):
        for _ in range(warmup):
            outputs = _listed(function(*inputs))
            gradients(outputs, [_C.zeros_like(o) for o in outputs])
    synchronize()
    forward, backward = CUDAGraph(), CUDAGraph()
    with graph(forward):
        result = function(*inputs)
    outputs = _listed(result)
    given = tuple(_C.zeros_like(o) for o in outputs)
    with graph(backward):
        found = gradients(outputs, given)
    return _callable(function, (forward, backward), inputs, parameters, [o.detach() for o in outputs], given, found,
                     isinstance(result, _C.Tensor))


def _callable(function, graphs, inputs, parameters, outputs, given, found, single):
    from .. import autograd

    class Graphed(autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            for place, value in zip(inputs, args):
                place.data.copy_(value)
            graphs[0].replay()
            return tuple(o.clone() for o in outputs)

        @staticmethod
        def backward(ctx, *grads):
            for place, value in zip(given, grads):
                place.copy_(value)
            graphs[1].replay()
            ready = iter(found)
            return tuple(_copied(next(ready)) if x.requires_grad else None for x in inputs + parameters)

    def call(*args):
        results = Graphed.apply(*args, *parameters)
        return results[0] if single else results

    if hasattr(function, "forward"):
        function.forward = call
        return function
    return call


def _copied(gradient):
    return None if gradient is None else gradient.clone()


def _listed(outputs):
    return (outputs,) if isinstance(outputs, _C.Tensor) else tuple(outputs)
