"""PyTorch's names of the nodes of graphs: CatBackward0 for the op cat.

A name is made of that of our op. Where an op here does the work of several of PyTorch's, it is that of the most
common one, and the number at the end, which tells PyTorch's overloads apart, is always 0.
"""

_NODES = {"AccumulateGrad": "torch::autograd::AccumulateGrad", "WriteIntoBase": "torch::autograd::CopySlices"}
_OPS = {"batch_norm": "NativeBatchNorm", "cast": "ToCopy", "constant_pad": "ConstantPadNd", "contiguous": "Clone",
        "group_norm": "NativeGroupNorm", "layer_norm": "NativeLayerNorm", "matmul": "Mm", "norm": "LinalgVectorNorm",
        "square": "Pow"}


def pytorch_name(name):
    """
    >>> pytorch_name("log_softmax")
    'LogSoftmaxBackward0'
    """
    if name in _NODES:
        return _NODES[name]
    if not name.replace("_", "a").isalnum() or name != name.lower():  # that of a Function of the program's own
        return name
    words = _OPS.get(name) or "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    return f"{words}Backward0"


def add(torch):
    """Gives them to the nodes."""
    node = type((torch.ones(1, requires_grad=True) * 1).grad_fn)
    own = node.name

    def name(self):
        """The name that PyTorch has for the node."""
        return pytorch_name(own(self))
    node.name = name
    node.__repr__ = lambda self: f"<{name(self).rpartition('::')[2]} object at {id(self):#x}>"
    printed = torch.Tensor.__repr__

    def __repr__(self):
        text = printed(self)
        begin, found, end = text.rpartition("grad_fn=<")
        return f"{begin}{found}{name(self.grad_fn).rpartition('::')[2]}{end[end.index('>'):]}" if found else text
    torch.Tensor.__repr__ = __repr__
