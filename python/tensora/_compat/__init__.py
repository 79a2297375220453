"""Names of PyTorch that programs import and that are no part of Tensora's own interface.

Those that mean something here do it; the others are classes whose use raises a NotImplementedError with their name.
"""
import functools
import types

# Where modules are that have another place here.
PLACES = {"torch._dynamo": "tensora._compat.dynamo", "torch._inductor": "tensora._compat.inductor",
          "torch._logging": "tensora._compat.inductor",
          "torch.__future__": "tensora._compat.future",
          "torch.__config__": "tensora._compat.build_config", "torch.torch_version": "tensora._compat.torch_version",
          "torch.functional": "tensora", "torch._tensor": "tensora", "torch.return_types": "tensora",
          "torch.nn.modules.distance": "tensora.nn", "torch.nn.modules.sparse": "tensora.nn",
          "torch.distributed.distributed_c10d": "tensora.distributed",
          "torch.distributed.constants": "tensora.distributed",
          "torch.distributed.elastic.multiprocessing.errors": "tensora._compat.elastic_errors",
          "torch.distributed.launch": "tensora.distributed.run",
          "torch._utils": "tensora._compat.utils", "torch.utils.model_zoo": "tensora.hub",
          "torch.fx._symbolic_trace": "tensora.fx.tracer", "torch.fx.subgraph_rewriter": "tensora.fx.rewriter",
          "torch.fx.immutable_collections": "tensora.fx.node", "torch.autograd.profiler": "tensora.profiler",
          "torch.autograd.grad_mode": "tensora._modes", "torch.autograd.variable": "tensora.autograd",
          "torch.autograd.anomaly_mode": "tensora.autograd",
          "torch.jit.annotations": "tensora._compat.jit_annotations", "torch.utils.data.dataloader": "tensora.utils.data.loader",
          "torch.nn.parallel.distributed": "tensora.nn.parallel",
          "torch.nn.parallel.data_parallel": "tensora.nn.parallel", "torch._vmap_internals": "tensora.func",
          "torch.distributed.tensor": "tensora._compat.distributed_tensor",
          "torch.distributed._tensor": "tensora._compat.distributed_tensor",
          "torch.distributed.tensor.placement_types": "tensora._compat.distributed_tensor",
          "torch.onnx.symbolic_helper": "tensora._compat.onnx_symbolic_helper",
          "torch.mps": "tensora._compat.absent_device", "torch.xpu": "tensora._compat.absent_device",
          "torch.mtia": "tensora._compat.absent_device",
          "torch._dynamo._trace_wrapped_higher_order_op": "tensora._compat.trace_wrapped",
          "torch.utils._python_dispatch": "tensora._compat.python_dispatch",
          "torch._C._functorch": "tensora._compat.functorch",
          "torch.utils.data._utils": "tensora._compat.data_utils",
          "torch.utils.data._utils.collate": "tensora.utils.data.collate",
          "torch.utils.data._utils.worker": "tensora.utils.data.loader",
          "torch.utils._foreach_utils": "tensora._compat.foreach_utils", "torch.utils.weak": "tensora._compat.weak",
          "torch.nn.attention.flex_attention": "tensora.nn.flex_attention",
          "torch.nn.utils.convert_parameters": "tensora.nn.utils", "torch.nn.utils.clip_grad": "tensora.nn.utils",
          "torch.nn.modules.lazy": "tensora.nn.modules.lazy", "torch.profiler.profiler": "tensora.profiler",
          "torch.amp.grad_scaler": "tensora.amp", "torch.amp.autocast_mode": "tensora.amp",
          "torch.cuda.random": "tensora.cuda", "torch.multiprocessing.spawn": "tensora.multiprocessing",
          **{f"torch.optim.{file}": "tensora.optim" for file in (
              "adam", "adamw", "sgd", "rmsprop", "adagrad", "adadelta", "adamax", "asgd", "lbfgs", "nadam", "radam",
              "rprop")},
          "torch.utils.data.distributed": "tensora.utils.data.sampler",
          "torch._functorch": "tensora._compat.functorch", "torch._functorch.apis": "tensora.func"}

# What is not part of Tensora, and what a program that uses it is told.
REFUSED = {
    "torch.ao": "use Tensor.quantize(dtype), or the command tensora quantize",
    "torch.quantization": "use Tensor.quantize(dtype), or the command tensora quantize",
    "torch.nested": "pad the sequences, or use tensora.varlen_attention",
    "torch.export": "save the state_dict(); tensora.fx records a module's graph",
    "torch.package": "save the state_dict() and keep the source beside it",
    "torch.distributed.fsdp": "sharded training is part of the C++ interface (docs/distributed.md)",
    "torch.distributed.tensor": "there are no distributed tensors; use torch.distributed's collectives",
    "torch.distributed._tensor": "there are no distributed tensors; use torch.distributed's collectives",
    "torch.distributed._composable": "sharded training is part of the C++ interface (docs/distributed.md)",
    "torch.distributed.checkpoint": "save the state_dict() of one rank with torch.save",
    "torch.distributed.algorithms": "communication hooks do not exist here",
    "torch.distributed.pipelining": "pipelines do not exist here",
    "torch.distributed.optim": "use the optimizer itself",
    "torch.distributed.rpc": "remote calls do not exist here",
    "torch.distributed.elastic": "start the ranks with python -m torch.distributed.run",
    "torch.distributed.launcher": "start the ranks with python -m torch.distributed.run",
    "torch.distributed.nn": "collectives with gradients are part of the C++ interface",
    "torch.distributed.device_mesh": "there are no device meshes",
    "torch.distributed._functional_collectives": "use the collectives of torch.distributed",
    "torch.fx.experimental": "symbolic shapes do not exist here: a graph runs with any shapes",
    "torch.fx.passes": "write the pass as a loop over graph.nodes",
    "torch._tensor_str": "print tensors with str(), and set their form with torch.set_printoptions",
    "torch.nn.parallel.scatter_gather": "a model runs on one device, or in a process for each device",
    "torch.cuda.nvtx": "use tensora.profiler",
    "torch.quasirandom": "draw the points with scipy.stats.qmc.Sobol",
    "torch.autograd.profiler_legacy": "use tensora.profiler",
    "torch._higher_order_ops": "write the loop in Python",
    "torch.onnx": "torch.onnx.export, its ONNXProgram and load are here (docs/onnx.md)",
    "torch.utils.cpp_extension": "write an op in C++ (docs/add-an-op.md)",
    "torch.utils.flop_counter": "use tensora.profiler",
    "torch.utils._sympy": "symbolic shapes do not exist here",
    "torch.utils._python_dispatch": "use __torch_function__",
    "torch.utils.mobile_optimizer": "there is no mobile runtime",
    "torch.utils.data.datapipes": "use datasets and DataLoader",
    "torch.nn.quantized": "use Tensor.quantize(dtype)", "torch.nn.intrinsic": "use Tensor.quantize(dtype)",
    "torch.nn.qat": "use Tensor.quantize(dtype)",
    "torch._subclasses": "tensors without memory are made with device='meta'",
    "torch._custom_ops": "use torch.library.custom_op", "torch._prims": "use the ops", "torch._decomp": "use the ops",
    "torch.monitor": "use tensora.profiler", "torch.numa": "bind the process with numactl",
    "torch.testing._internal": "PyTorch's own test suite is not part of Tensora",
}


def refusal(name):
    """Why a module of PyTorch is not here; None if it is not one that is refused."""
    while name:
        if name in REFUSED:
            return REFUSED[name]
        name = name.rpartition(".")[0]
    return None


class _Refusal(type):
    """The type of classes that can be named, derived from and compared with, and not used."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return refused(f"{cls._refused}.{name}", cls._reason)

    def __call__(cls, *args, **kwargs):
        if cls.__name__.startswith("_") and len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return _decorated(cls, args[0])
        raise NotImplementedError(f"{cls._refused} is not part of Tensora: {cls._reason}")

    def __repr__(cls):
        return f"<{cls._refused}, which is not part of Tensora>"


def _decorated(cls, function):
    """What a private decorator makes of a function of a library: the refusal comes when it is called."""
    @functools.wraps(function)
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{cls._refused} is not part of Tensora: {cls._reason}")
    return refuse


def refused(name, reason):
    """A class of this name whose use raises."""
    return _Refusal(name.rpartition(".")[2], (), {"_refused": name, "_reason": reason, "__module__": name.rpartition(".")[0]})


class RefusedModule(types.ModuleType):
    """A module of which every public name is refused when it is used."""

    def __init__(self, name, reason):
        super().__init__(name, f"{name} is not part of Tensora: {reason}")
        self.__path__, self._reason = [], reason

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = refused(f"{self.__name__}.{name}", self._reason)
        setattr(self, name, made)
        return made
