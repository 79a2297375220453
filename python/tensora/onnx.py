"""Export to ONNX and import from it (docs/onnx.md).

`export` has the arguments of PyTorch's function; `load` makes a module of an ONNX file."""
import enum
import importlib
import inspect
import os

import tensora
from .utils import _pytree

__all__ = ["export", "load", "ONNXProgram", "ONNXModule", "TrainingMode", "OperatorExportTypes",
           "exported_ops", "imported_ops"]

symbolics = {}  # what register_custom_op_symbolic was given, by name
_exporting = False


def _core():
    return importlib.import_module("tensora._onnx")


class TrainingMode(enum.IntEnum):
    """In which mode a module is exported."""
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Which operators may be written: only ONNX's own."""
    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class ONNXProgram:
    """A model in ONNX's operators, in memory."""

    def __init__(self, model):
        self._model = model

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Writes the model to a path, or to a file object that is open for bytes. With `external_data`, tensors of
        1 KiB and more lie in the file `destination` + ".data" beside it; without a choice, a model of 2 GiB and more
        is written so."""
        _refuse("ONNXProgram.save", include_initializers=(include_initializers, True),
                keep_initializers_as_inputs=(keep_initializers_as_inputs, False))
        if hasattr(destination, "write"):
            if external_data:
                raise ValueError("ONNXProgram.save: external_data needs a path, got a file object")
            destination.write(self.serialize())
            return
        large = self._model.bytes >= 2 ** 31 - 2 ** 26
        self._model.save(os.fspath(destination), large if external_data is None else bool(external_data))

    def serialize(self):
        """The bytes of the file."""
        return self._model.serialize()

    @property
    def model_proto(self):
        """The model as the package onnx has it, which must be installed."""
        import onnx
        return onnx.load_from_string(self.serialize())

    @property
    def inputs(self):
        """(name, dtype, sizes) of each input; a size is a number or a symbol."""
        return self._model.inputs

    @property
    def outputs(self):
        return self._model.outputs

    @property
    def nodes(self):
        """(operator, names of inputs, names of outputs) of each node."""
        return self._model.nodes

    @property
    def opset_version(self):
        return self._model.opset_version

    def __call__(self, *args, **kwargs):
        """Runs the model with Tensora's own ops, on the tensors among the arguments."""
        leaves = _pytree.tree_leaves((args, kwargs))
        given = [leaf for leaf in leaves if isinstance(leaf, tensora.Tensor)]
        outputs = ONNXModule(self._model)(*given)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def __repr__(self):
        def line(kind, values):
            return "".join(f"\n  {kind} {name}: {dtype} {sizes}" for name, dtype, sizes in values)
        return f"ONNXProgram({len(self.nodes)} nodes{line('input', self.inputs)}{line('output', self.outputs)}\n)"


class ONNXModule(tensora.nn.Module):
    """The graph of an ONNX file as a module. The file's tensors of floating dtypes are parameters that do not require
    grad; the others are buffers. Dots in their names make modules of modules."""

    def __init__(self, model):
        super().__init__()
        self._program = _core().Program(model)
        self.input_names = [name for name, _, _ in model.inputs][:]
        self.output_names = [name for name, _, _ in model.outputs]
        self._places = []
        for name, tensor in self._program.weights:
            self._places.append(self._place(name, tensor))
        known = {name for name, _ in self._program.weights}
        self.input_names = [name for name in self.input_names if name not in known]

    def _place(self, name, tensor):
        owner = self
        *folders, last = name.split(".")
        for folder in folders:
            inner = owner._modules.get(folder)
            if inner is None:
                if not folder or folder in owner._parameters or folder in owner._buffers or hasattr(owner, folder):
                    owner, last = self, name.replace(".", "/")
                    break
                inner = tensora.nn.Module()
                owner.add_module(folder, inner)
            owner = inner
        while not last or last in owner._modules or hasattr(owner, last):
            last += "_"
        if tensor.is_floating_point():
            owner.register_parameter(last, tensora.nn.Parameter(tensor, requires_grad=False))
            return owner._parameters, last
        owner.register_buffer(last, tensor)
        return owner._buffers, last

    def forward(self, *inputs, **named):
        """The outputs, as a tuple if there are several. Inputs may be given by their names in the file."""
        given = list(inputs)
        for name in self.input_names[len(given):]:
            if name not in named:
                raise TypeError(f"ONNXModule: input '{name}' is missing; the inputs are {', '.join(self.input_names)}")
            given.append(named.pop(name))
        if named:
            raise TypeError(f"ONNXModule: there is no input '{next(iter(named))}' left to give; the inputs are "
                            f"{', '.join(self.input_names)}")
        weights = [table[name] for table, name in self._places]
        outputs = self._program.run(given, weights)
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def extra_repr(self):
        return f"inputs={self.input_names}, outputs={self.output_names}"


def load(f):
    """Makes a module of an ONNX file, given by its path, a file object or the file's bytes. The whole file is checked
    first; external data must lie in its folder."""
    if hasattr(f, "read"):
        f = f.read()
    if isinstance(f, (bytes, bytearray, memoryview)):
        return ONNXModule(_core().parse(bytes(f)))
    return ONNXModule(_core().read(os.fspath(f)))


def exported_ops():
    """(op, ONNX's operators) of each op that is written directly; others are written by their definitions."""
    return _core().exported_ops()


def imported_ops():
    """The operators that `load` knows."""
    return _core().imported_ops()


def _refuse(function, **options):
    for name, (value, only) in options.items():
        if value != only:
            raise NotImplementedError(f"{function}: {name}={value!r} is not supported; only {only!r} is")


def export(model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None, output_names=None,
           opset_version=None, dynamo=True, external_data=None, dynamic_shapes=None, custom_translation_table=None,
           report=False, optimize=True, verify=False, profile=False, dump_exported_program=False, artifacts_dir=".",
           export_params=True, keep_initializers_as_inputs=False, dynamic_axes=None, training=TrainingMode.EVAL,
           operator_export_type=OperatorExportTypes.ONNX, do_constant_folding=True, custom_opsets=None,
           export_modules_as_functions=False, autograd_inlining=True):
    """Exports a module, or a function of tensors, to ONNX; returns an ONNXProgram, and writes it to `f` if given.

    PyTorch's arguments. There is one exporter: `dynamo` only decides whether a dict at the end of `args` is taken for
    keyword arguments (False, as in PyTorch). Constants are left to the runtime to fold, whatever
    `do_constant_folding` says, and there are no autograd functions to inline."""
    _refuse("onnx.export", custom_translation_table=(custom_translation_table or None, None), report=(report, False),
            optimize=(bool(optimize), True), profile=(profile, False), export_params=(bool(export_params), True),
            dump_exported_program=(dump_exported_program, False), artifacts_dir=(os.fspath(artifacts_dir), "."),
            keep_initializers_as_inputs=(bool(keep_initializers_as_inputs), False),
            operator_export_type=(OperatorExportTypes(operator_export_type), OperatorExportTypes.ONNX),
            custom_opsets=(custom_opsets or None, None),
            export_modules_as_functions=(export_modules_as_functions or False, False))
    if not callable(model):
        raise TypeError(f"onnx.export: model must be a module or a function, got {type(model).__name__}")
    args = (args,) if isinstance(args, tensora.Tensor) else tuple(args)
    kwargs = dict(kwargs or {})
    if not dynamo and args and isinstance(args[-1], dict):
        kwargs.update(args[-1])
        args = args[:-1]
    call = _Call(model, args, kwargs)
    names = _input_names(call, input_names)
    axes = _dynamic_axes(call, names, dynamic_axes, dynamic_shapes)
    with _Mode(model, TrainingMode(training)):
        exported = _core().export(call, call.tensors, names, list(output_names or ()), axes, opset_version or 20,
                                  _named_tensors(model))
        program = ONNXProgram(exported)
        if verify:
            _verify(program, call)
    if verbose:
        print(program)
        for op, inputs, outputs in program.nodes:
            print(f"  {', '.join(outputs)} = {op}({', '.join(inputs)})")
    if f is not None:
        program.save(f, external_data=external_data)
    return program


class _Call:
    """A call of the model as a function of its tensors alone."""

    def __init__(self, model, args, kwargs):
        self.model = model
        self.paths, leaves, self.spec = _flatten(model, args, kwargs)
        self.leaves = leaves
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, tensora.Tensor)]
        self.tensor_paths = [path for path, leaf in zip(self.paths, leaves) if isinstance(leaf, tensora.Tensor)]

    def __call__(self, tensors):
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, tensora.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = _pytree.tree_unflatten(leaves, self.spec)
        return _tensors(self.model(*args, **kwargs))


def _flatten(model, args, kwargs):
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    function = model.forward if isinstance(model, tensora.nn.Module) else model
    try:
        parameters = [name for name, parameter in inspect.signature(function).parameters.items()
                      if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        parameters = []
    paths = []
    for i, arg in enumerate(args):
        name = parameters[i] if i < len(parameters) else f"input_{i}"
        count = len(_pytree.tree_leaves(arg))
        paths += [(name, k if count > 1 or isinstance(arg, (list, tuple, dict)) else None) for k in range(count)]
    for name, arg in kwargs.items():
        count = len(_pytree.tree_leaves(arg))
        paths += [(name, k if count > 1 or isinstance(arg, (list, tuple, dict)) else None) for k in range(count)]
    if len(paths) != len(leaves):
        paths = [(f"input_{i}", None) for i in range(len(leaves))]
    return paths, leaves, spec


def _tensors(result):
    """The tensors of what a model returns, in order."""
    if isinstance(result, tensora.Tensor):
        return [result]
    if result is None:
        return []
    if hasattr(result, "to_tuple"):  # the outputs of transformers' models
        result = result.to_tuple()
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in _tensors(part)]
    raise TypeError(f"onnx.export: the model returns a {type(result).__name__}; tensors, and lists, tuples and dicts of "
                    "them, can be exported")


def _input_names(call, input_names):
    """The names that were given, and those of the function's parameters for the rest."""
    names = list(input_names or ())
    if len(names) > len(call.tensors):
        raise ValueError(f"onnx.export: {len(names)} input_names for {len(call.tensors)} tensors")
    for name, part in call.tensor_paths[len(names):]:
        name = name if part is None else f"{name}_{part}"
        while name in names:
            name += "_"
        names.append(name)
    return names


def _symbol(value, name, axis):
    """A dynamic axis's name, from what PyTorch's arguments take for one."""
    if isinstance(value, str):
        return value
    symbol = getattr(value, "__name__", None) or getattr(value, "name", None)
    return symbol if isinstance(symbol, str) and symbol.isidentifier() and symbol not in ("AUTO", "DYNAMIC") \
        else f"{name}_dynamic_axes_{axis}"


def _axes_of(name, axes):
    if axes is None:
        return {}
    if isinstance(axes, dict):
        items = axes.items()
    elif all(isinstance(axis, int) and not isinstance(axis, bool) for axis in axes):
        return {axis: f"{name}_dynamic_axes_{k + 1}" for k, axis in enumerate(axes)}
    else:  # one entry per dim
        items = enumerate(axes)
    return {axis: _symbol(value, name, axis) for axis, value in items
            if value is not None and not (isinstance(value, int) and not isinstance(value, enum.Enum))
            and getattr(value, "name", None) != "STATIC"}


def _dynamic_axes(call, names, dynamic_axes, dynamic_shapes):
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("onnx.export: give either dynamic_axes or dynamic_shapes, not both")
    if dynamic_axes is not None:
        return {name: _axes_of(name, axes) for name, axes in dynamic_axes.items()}
    if dynamic_shapes is None:
        return {}
    if isinstance(dynamic_shapes, dict):
        known = {path[0]: i for i, path in enumerate(call.tensor_paths) if path[1] is None}
        known.update({name: i for i, name in enumerate(names)})
        for name in dynamic_shapes:
            if name not in known:
                raise ValueError(f"onnx.export: dynamic_shapes names '{name}'; the tensors are {', '.join(known)}")
        return {names[known[name]]: _axes_of(names[known[name]], axes) for name, axes in dynamic_shapes.items()}
    if len(dynamic_shapes) != len(names):
        raise ValueError(f"onnx.export: {len(dynamic_shapes)} dynamic_shapes for {len(names)} tensors")
    return {name: _axes_of(name, axes) for name, axes in zip(names, dynamic_shapes)}


def _named_tensors(model):
    """Parameters and buffers by name, each tensor once."""
    if not isinstance(model, tensora.nn.Module):
        return []
    named, seen = [], set()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            named.append((name, tensor))
    return named


class _Mode:
    """Puts a module into the mode of the export, and back."""

    def __init__(self, model, training):
        self.modules = list(model.modules()) if isinstance(model, tensora.nn.Module) else []
        self.before = [module.training for module in self.modules]
        self.model, self.training = model, training

    def __enter__(self):
        global _exporting
        _exporting = True
        if self.modules and self.training != TrainingMode.PRESERVE:
            self.model.train(self.training == TrainingMode.TRAINING)

    def __exit__(self, *_):
        global _exporting
        _exporting = False
        for module, training in zip(self.modules, self.before):
            module.training = training


def _verify(program, call):
    with tensora.no_grad():
        expected, found = call(call.tensors), program(*call.tensors)
    for (name, _, _), a, b in zip(program.outputs, expected, found):
        if a.shape != b.shape or not tensora.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-5, equal_nan=True):
            raise RuntimeError(f"onnx.export: verify: output '{name}' of the exported model differs from the model's")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Keeps how an op would be exported; Tensora's exporter does not ask for it."""
    symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    symbolics.pop((symbolic_name, opset_version), None)


def is_in_onnx_export():
    """Whether a module is being exported."""
    return _exporting


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "symbolic_helper":
        from ._compat import onnx_symbolic_helper
        return onnx_symbolic_helper
    from ._compat import REFUSED, refused
    return refused(f"torch.onnx.{name}", REFUSED["torch.onnx"])
