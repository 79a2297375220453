"""torch.onnx.symbolic_helper: marks of functions that export an op for PyTorch; Tensora's exporter does not call them."""
from . import REFUSED, refused


def parse_args(*arg_descriptors):
    """Decorates a function that exports an op: the function itself, with the kinds of its arguments noted."""
    def mark(function):
        function._arg_descriptors = arg_descriptors
        return function
    return mark


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return refused(f"torch.onnx.symbolic_helper.{name}", REFUSED["torch.onnx"])
