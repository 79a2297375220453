"""Modules of modules."""
from __future__ import annotations

import operator
from collections import OrderedDict
from typing import Any, ItemsView, Iterable, Iterator, KeysView, Mapping, TypeVar, ValuesView, overload

from ..parameter import Parameter
from ..._C import Tensor
from .module import Module, _indented

_S = TypeVar("_S", bound="_Indexed")
__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class _Indexed(Module):
    """What Sequential and ModuleList share: children by number."""

    def _key(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            items = list(self._modules.items())[index]
            return type(self)(OrderedDict(items)) if isinstance(self, Sequential) else type(self)([m for _, m in items])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        self._renumber()

    def _renumber(self):
        modules = list(self._modules.values())
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self._modules.values())

    def append(self: _S, module: Module) -> _S:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: _S, modules: Iterable[Module]) -> _S:
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self: _S, index: int, module: Module) -> _S:
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._modules.clear()
        for i, item in enumerate(modules):
            setattr(self, str(i), item)
        return self

    def pop(self, index: int | slice) -> Module:
        module = self[index]
        del self[index]
        return module

    def __add__(self: _S, other: Iterable[Module]) -> _S:
        result = type(self)() if isinstance(self, Sequential) else type(self)(self)
        if isinstance(self, Sequential):
            result.extend(self)
        return result.extend(other)

    def __iadd__(self: _S, other: Iterable[Module]) -> _S:
        return self.extend(other)


class Sequential(_Indexed):
    """One module after the other.

    >>> nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: Mapping[str, Module]) -> None: ...

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of `modules`, which belong to the module that has it."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def forward(self, *args: Any) -> Any:
        raise NotImplementedError("ModuleList has no forward; call its modules")

    def __repr__(self) -> str:
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
    """A dict of `modules` by name, which belong to the module that has it."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:  # a subclass may have an update of its own
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> KeysView[str]:
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        return self._modules.items()

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes a module out and returns it."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules, or replaces those of the same names."""
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
    """A list of parameters, which begins with `values`; tensors become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(values or ())

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ParameterList([self[i] for i in range(*index.indices(len(self)))])
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return getattr(self, str(index % len(self)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(index % len(self)), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end; a tensor becomes a parameter."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds values at the end."""
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __repr__(self) -> str:
        lines = [f"    ({i}): {_described(value, value.dtype if isinstance(value, Tensor) else None)}\n"
                 for i, value in enumerate(self)]
        return f"{self._get_name()}(\n" + "".join(lines) + ")"


class ParameterDict(Module):
    """A dict of `parameters` by name; tensors become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def keys(self) -> KeysView[str]:
        return self._parameters.keys()

    def values(self) -> ValuesView[Any]:
        return self._parameters.values()

    def items(self) -> ItemsView[str, Any]:
        return self._parameters.items()

    def update(self, parameters: Any) -> None:
        """Adds parameters, or replaces those of the same names."""
        for name, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[name] = value

    def __repr__(self) -> str:
        lines = [f"  ({name}): {_described(value, value.type())}" for name, value in self.items()]
        return f"{self._get_name()}(" + "\n".join(lines) + ")"
