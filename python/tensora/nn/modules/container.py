"""Modules of modules."""
import operator
from collections import OrderedDict

from ..parameter import Parameter
from ..._C import Tensor
from .module import Module, _indented

__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class _Indexed(Module):
    """What Sequential and ModuleList share: children by number."""

    def _key(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    def __getitem__(self, index):
        if isinstance(index, slice):
            items = list(self._modules.items())[index]
            return type(self)(OrderedDict(items)) if isinstance(self, Sequential) else type(self)([m for _, m in items])
        return self._modules[self._key(index)]

    def __setitem__(self, index, module):
        setattr(self, self._key(index), module)

    def __delitem__(self, index):
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        self._renumber()

    def _renumber(self):
        modules = list(self._modules.values())
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __contains__(self, module):
        return any(module is m for m in self._modules.values())

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def insert(self, index, module):
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        for i, item in enumerate(modules):
            self._modules[str(i)] = item
        return self

    def pop(self, index):
        module = self[index]
        del self[index]
        return module

    def __add__(self, other):
        result = type(self)() if isinstance(self, Sequential) else type(self)(self)
        if isinstance(self, Sequential):
            result.extend(self)
        return result.extend(other)

    def __iadd__(self, other):
        return self.extend(other)


class Sequential(_Indexed):
    """One module after the other.

    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules."""

    def __init__(self, modules=None):
        super().__init__()
        self.extend(modules or ())

    def forward(self, *args):
        raise NotImplementedError("ModuleList has no forward; call its modules")

    def __repr__(self):
        """Equal modules in a row are printed once."""
        texts, lines, at = [repr(module) for module in self], [], 0
        while at < len(texts):
            end = at
            while end < len(texts) and texts[end] == texts[at]:
                end += 1
            names = f"({at})" if end == at + 1 else f"({at}-{end - 1})"
            text = texts[at] if end == at + 1 else f"{end - at} x {texts[at]}"
            lines.append(f"  {names}: {_indented(text, 2)}\n")
            at = end
        return f"{self._get_name()}(" + ("\n" + "".join(lines) if lines else "") + ")"


class ModuleDict(Module):
    """A dict of modules."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:  # a subclass may have an update of its own
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()

    def clear(self):
        self._modules.clear()

    def pop(self, key):
        return self._modules.pop(key)

    def update(self, modules):
        for name, module in modules.items() if hasattr(modules, "items") else modules:
            self[name] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(value, kind):
    """A parameter or another value, as PyTorch's containers of parameters print it."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(map(str, value.shape))
    place = f" ({value.device})" if value.is_cuda else ""
    return f"{'Parameter' if isinstance(value, Parameter) else 'Tensor'} containing: [{kind} of size {size}{place}]"


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def __len__(self):
        return self._size

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ParameterList([self[i] for i in range(*index.indices(len(self)))])
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return getattr(self, str(index % len(self)))

    def __setitem__(self, index, value):
        setattr(self, str(index % len(self)), _as_parameter(value))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def append(self, value):
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values):
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values):
        return self.extend(values)

    def __repr__(self):
        lines = [f"    ({i}): {_described(value, value.dtype if isinstance(value, Tensor) else None)}\n"
                 for i, value in enumerate(self)]
        return f"{self._get_name()}(\n" + "".join(lines) + ")"


class ParameterDict(Module):
    """A dict of parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self.update(parameters or {})

    def __getitem__(self, key):
        return self._parameters[key]

    def __setitem__(self, key, value):
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key):
        delattr(self, key)

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters)

    def __contains__(self, key):
        return key in self._parameters

    def keys(self):
        return self._parameters.keys()

    def values(self):
        return self._parameters.values()

    def items(self):
        return self._parameters.items()

    def update(self, parameters):
        for name, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[name] = value

    def __repr__(self):
        lines = [f"  ({name}): {_described(value, value.type())}" for name, value in self.items()]
        return f"{self._get_name()}(" + "\n".join(lines) + ")"
