"""No keyword argument is accepted and ignored: Python functions by their source, generated ones by calling them."""
import ast
import pathlib
import warnings

import pytest

import tensora
from tensora import _C, nn, optim
from tensora.nn import functional as F

# Parameters that a function takes because PyTorch's has them, and why they change nothing here. Where the
# reason is that something is missing, a value that asks for it must raise or warn, and then it is read.
IMPLEMENTATION = "chooses between implementations of the same thing, of which there is one"
EVERYTHING_AT_ONCE = "programs run as they are; the function or module itself is returned"
ALLOWED = {
    "_dtypes.py:is_storage": {"obj": "there are no storages"},
    "_functions.py:use_deterministic_algorithms": {"warn_only": "every op has a deterministic form"},
    "_functions.py:set_num_interop_threads": {"n": "there is one pool of threads"},
    "_batched.py:__torch_function__": {"types": "the protocol's form"},
    "_modes.py:_leave_device": {"error": "the form of __exit__"},
    "_torch_pickles.py:lambda": {"args": "makes leaves, whatever they are made of", "kwargs": "makes nothing"},
    "_torch_pickles.py:__new__": {"args": "", "kwargs": "makes nothing of what it is given"},
    "_torch_pickles.py:persistent_load": {"pid": "no storage is read"},
    "_tensor.py:_disabled_torch_function_impl": {"types": "the protocol's form"},
    "_sparse_shapes.py:_copied": {"non_blocking": "a hint"},
    "_tensor.py:_type": {"non_blocking": "a hint"},
    "_tensor.py:__array_wrap__": {"context": "NumPy's protocol", "return_scalar": "a 0-d tensor is a scalar"},
    "_tensor.py:__array_namespace__": {"api_version": "there is one version"},
    "_tensor.py:to_device": {"stream": "work is ordered by the stream in use"},
    "_tensor.py:pin_memory": {"device": "deprecated in PyTorch"},
    "_tensor.py:is_pinned": {"device": "deprecated in PyTorch"},
    "accelerator.py:current_accelerator": {"check_available": "it is always checked"},
    "array_api/info.py:default_dtypes": {"device": "devices have the same dtypes"},
    "array_api/info.py:dtypes": {"device": "devices have the same dtypes"},
    "autograd/gradcheck.py:gradcheck": {"check_undefined_grad": "the documentation says so",
                                        "fast_mode": "the full check is stricter"},
    "autograd/forward_ad.py:__torch_function__": {"types": "the protocol's form"},
    "nn/modules/lazy.py:_lazy_load_hook": {"rest": "the form of such hooks"},
    "nn/modules/lazy.py:_takes": {"name": "", "shape": "a module of the program takes what it is given"},
    "nn/modules/lazy.py:initialize_parameters": {"args": "", "kwargs": "of forward: only the input has the channels"},
    "nn/parameter.py:__reduce_ex__": {"protocol": "Python's protocol"},
    "utils/checkpoint.py:set_checkpoint_early_stop": {"enable": "a hint"},
    "overrides.py:__torch_function__": {"types": "the protocol's form"},
    "backends/__init__.py:lambda": {"enabled": IMPLEMENTATION},
    "compat.py:find_spec": {"path": "Python's protocol", "target": "Python's protocol"},
    "compiler.py:disable": {"recursive": EVERYTHING_AT_ONCE, "reason": "a note for readers"},
    "cuda/__init__.py:memory_summary": {"abbreviated": "the summary is short"},
    "cuda/__init__.py:is_bf16_supported": {"including_emulation": "it is computed in any case"},
    "cuda/graphs.py:make_graphed_callables": {"allow_unused_input": "unused inputs are always allowed",
                                              "pool": "each graph has memory of its own"},
    "cuda/graphs.py:__init__": {"keep_graph": "", "pool": "", "stream": "", "capture_error_mode":
                                "a graph records this thread's work, into memory of its own"},
    "cuda/graphs.py:capture_begin": {"pool": "", "capture_error_mode": "see __init__"},
    "cuda/streams.py:__init__": {"priority": "streams have one priority", "blocking": "a hint", "external": "a hint"},
    "distributions/constraint_registry.py:_real": {"constraint": "the form of such functions"},
    "distributions/constraint_registry.py:_simplex": {"constraint": "the form of such functions"},
    "distributions/constraint_registry.py:_softmax": {"constraint": "the form of such functions"},
    "distributions/constraint_registry.py:_lower": {"constraint": "the form of such functions"},
    "distributions/constraint_registry.py:_definite": {"constraint": "the form of such functions"},
    "distributions/transforms.py:log_abs_det_jacobian": {"y": "a transform uses x, y or both"},
    "fx/graph_module.py:__new__": {"args": "", "kwargs": "__init__ reads them"},
    "fx/interpreter.py:get_attr": {"args": "", "kwargs": "nodes of all kinds have one form"},
    "fx/interpreter.py:output": {"target": "", "kwargs": "nodes of all kinds have one form"},
    "fx/interpreter.py:placeholder": {"kwargs": "nodes of all kinds have one form"},
    "fx/node.py:lambda": {"user": "every user is changed by default"},
    "fx/proxy.py:__torch_function__": {"types": "the protocol's form"},
    "fx/tracer.py:is_leaf_module": {"module_qualified_name": "for subclasses"},
    "fx/tracer.py:getattr": {"attr": "for subclasses"},
    "backends/__init__.py:lambda": {"enabled": "", "args": "", "kwargs": "switches that change nothing"},
    "compat.py:__setattr__": {"name": "", "value": "it keeps what is there"},
    "jit.py:script": {"args": "", "kwargs": EVERYTHING_AT_ONCE},
    "jit.py:trace": {"example_inputs": "", "args": "", "kwargs": EVERYTHING_AT_ONCE},
    "jit.py:ignore": {"kwargs": EVERYTHING_AT_ONCE},
    "jit.py:annotate": {"the_type": EVERYTHING_AT_ONCE},
    "nn/functional.py:fractional_max_pool2d_with_indices": {"return_indices": "they are always returned, as in PyTorch"},
    "nn/functional.py:fractional_max_pool3d_with_indices": {"return_indices": "they are always returned, as in PyTorch"},
    "distributions/constraint_registry.py:_semidefinite": {"constraint": "the form of such functions"},
    "distributions/constraint_registry.py:_correlations": {"constraint": "the form of such functions"},
    "distributions/joined_transforms.py:log_abs_det_jacobian": {"y": "the form of such functions"},
    "distributions/utils.py:__get__": {"owner": "Python's protocol"},
    "nn/flex_attention.py:flex_attention": {"kernel_options": IMPLEMENTATION},
    "nn/attention.py:sdpa_kernel": {"set_priority": IMPLEMENTATION},
    "nn/modules/linear.py:__init__": {"args": "", "kwargs": "Identity takes and ignores anything, as PyTorch's"},
    "nn/modules/module.py:__init__": {"args": "", "kwargs": "as PyTorch's"},
    "nn/modules/transformer.py:__init__": {"enable_nested_tensor": IMPLEMENTATION, "mask_check": IMPLEMENTATION},
    "nn/parallel.py:__init__": {"output_device": "there is one device", "dim": "there is one device"},
    "nn/utils/__init__.py:clip_grad_norm_": {"foreach": IMPLEMENTATION},
    "nn/utils/__init__.py:clip_grad_value_": {"foreach": IMPLEMENTATION},
    "nn/utils/__init__.py:get_total_norm": {"foreach": IMPLEMENTATION},
    "nn/utils/__init__.py:clip_grads_with_norm_": {"foreach": IMPLEMENTATION},
    "nn/utils/prune.py:__call__": {"inputs": "a hook"},
    "nn/utils/prune.py:compute_mask": {"t": "Identity prunes nothing"},
    "nn/utils/weight_norm.py:__call__": {"args": "a hook"},
    "onnx.py:export": {"do_constant_folding": "left to the runtime", "autograd_inlining": "there is nothing to inline"},
    "optim/swa_utils.py:average": {"count": "the form of such functions"},
    "profiler.py:__init__": dict.fromkeys(("activities", "record_shapes", "with_stack", "profile_memory",
                                           "with_flops", "with_modules", "args"), "all ops are recorded, with times"),
    "profiler.py:table": {"sort_by": "by time, as the documentation says"},
    "profiler.py:key_averages": {"group_by_input_shape": "", "group_by_stack_n": "one row per op"},
    "random.py:fork_rng": {"devices": "", "device_type": "all devices share the generator"},
    "serialization.py:save": {"pickle_module": "", "pickle_protocol": "the format is PyTorch's zip archive"},
    "serialization.py:load": {"pickle_module": "the format is PyTorch's zip archive"},
    "serialization.py:cuda": {"non_blocking": "nothing is moved"},
    "sparse.py:__torch_function__": {"types": "the protocol's form"},
    "sparse.py:__reduce_ex__": {"protocol": "pickle's protocol"},
    "sparse.py:__deepcopy__": {"memo": "its parts are copied as they are"},
    "utils/checkpoint.py:checkpoint": {"use_reentrant": IMPLEMENTATION, "determinism_check": "", "debug":
                                       "the engine's own checks are always made"},
    "utils/checkpoint.py:checkpoint_sequential": {"use_reentrant": IMPLEMENTATION},
    "utils/checkpoint.py:set_checkpoint_debug_enabled": {"enabled": "there are no debug messages"},
    "utils/tensorboard.py:__init__": {"max_queue": "", "flush_secs": "every call is on the disk when it returns"},
    "utils/tensorboard.py:add_scalar": {"new_style": "", "double_precision": "how PyTorch encodes the number"},
    "utils/tensorboard.py:_unwritten": {"args": "", "kwargs": "a warning says that nothing is written"},
}
# Files whose functions all have one form, whatever each of them reads.
ONE_FORM = {"_batching_rules.py"}
PROTOCOL = {"self", "cls", "ctx"}  # of methods whose form Python or autograd prescribes
ROOT = pathlib.Path(tensora.__file__).parent


def only_raises(body):
    """An abstract method: a docstring, `pass`, or a raise."""
    rest = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return all(isinstance(s, (ast.Raise, ast.Pass)) for s in rest)


def unused(function):
    a = function.args
    names = [x.arg for x in a.posonlyargs + a.args + a.kwonlyargs + [v for v in (a.vararg, a.kwarg) if v]]
    body = function.body if isinstance(function.body, list) else [function.body]
    if getattr(function, "name", "") == "__exit__" or (isinstance(function.body, list) and only_raises(body)):
        return []
    read = {n.id for statement in body for n in ast.walk(statement) if isinstance(n, ast.Name)}
    if "locals" in read:
        return []
    return [name for name in names if name not in read and name not in PROTOCOL and not name.startswith("_")]


def test_python_functions_read_their_parameters():
    found, needed = [], set()
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in ONE_FORM:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
                continue
            place = f"{name}:{getattr(node, 'name', 'lambda')}"
            for parameter in unused(node):
                needed.add((place, parameter))
                is_mark = parameter in ("verbose", "validate_args") and name in ("optim/lr_scheduler.py", "optim/_cycles.py")
                if parameter not in ALLOWED.get(place, {}) and not is_mark and place.split(":")[1] != "__class_getitem__":
                    found.append(f"{name}:{node.lineno} {place.split(':')[1]}({parameter})")
    assert not found, "accepted and never read:\n" + "\n".join(found)
    stale = [(place, p) for place, names in ALLOWED.items() for p in names if (place, p) not in needed]
    assert not stale, f"exceptions that are no longer needed: {stale}"


def generated():
    """(name, function) of every function that is made from the C++ declarations."""
    for module in (_C, _C.linalg, _C.fft, _C.nn):
        for name, value in vars(module).items():
            if type(value).__name__ == "builtin_function":
                yield f"{module.__name__}.{name}", value


def test_generated_functions_refuse_unknown_keywords():
    for name, function in generated():
        with pytest.raises(TypeError):
            function(tensora.ones(1), no_such_keyword=1)


def test_generator_is_for_random_functions():
    generator = tensora.Generator()
    x = tensora.ones(2)
    for call in (lambda: x.add(x, generator=generator), lambda: tensora.exp(x, generator=generator),
                 lambda: tensora.zeros(2, generator=generator)):
        with pytest.raises(TypeError):
            call()
    first, second = (tensora.rand(3, generator=generator.manual_seed(3)) for _ in range(2))
    assert first.equal(second)
    for name in ("uniform_", "normal_", "exponential_", "bernoulli_", "cauchy_", "geometric_", "log_normal_"):
        arguments = (0.5,) if name == "geometric_" else ()
        a, b = (getattr(tensora.zeros(4), name)(*arguments, generator=generator.manual_seed(7)) for _ in range(2))
        assert a.equal(b), name


def test_factories_follow_memory_format_and_layout():
    image = tensora.ones(2, 3, 4, 5)
    for make in (lambda **k: tensora.empty(2, 3, 4, 5, **k), lambda **k: tensora.zeros_like(image, **k),
                 lambda **k: tensora.randn_like(image, **k), lambda **k: tensora.full_like(image, 2., **k)):
        made = make(memory_format=tensora.channels_last, requires_grad=True)
        assert made.is_contiguous(memory_format=tensora.channels_last) and not made.is_contiguous()
        assert made.requires_grad and made.is_leaf
    last = image.to(memory_format=tensora.channels_last)
    assert tensora.zeros_like(last, memory_format=tensora.contiguous_format).is_contiguous()
    assert tensora.zeros(2, layout=tensora.strided).shape == (2,)
    for wrong in (dict(layout="coo"), dict(memory_format="last")):
        with pytest.raises(TypeError):
            tensora.zeros(2, **wrong)


@pytest.mark.parametrize("name", ["float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool"])
def test_casts_follow_memory_format(name):
    image = tensora.ones(2, 3, 4, 5)
    cast = getattr(image, name)(memory_format=tensora.channels_last)
    assert cast.is_contiguous(memory_format=tensora.channels_last) and cast.shape == image.shape
    assert image.cpu(memory_format=tensora.channels_last).stride() == (60, 1, 15, 3)


def test_flags_of_to():
    x = tensora.ones(2)
    assert x.to(tensora.float32, False, True).data_ptr() != x.data_ptr()
    assert x.to("cpu", tensora.float32, False, False) is x and x.to("cpu", copy=True) is not x


def test_weighted_losses():  # numbers of PyTorch 2.15
    x, y = tensora.tensor([0.5, 2., -1.]), tensora.tensor([0., 0., 1.])
    weight = tensora.tensor([1., 2., 3.])
    close = lambda a, b: tensora.testing.assert_close(a, tensora.tensor(b))  # noqa: E731
    close(F.huber_loss(x, y, weight=weight), 2.5416667461395264)
    close(F.huber_loss(x, y, "sum", 0.5, weight), 4.5)
    close(F.huber_loss(x, y, "none", weight=weight), [0.125, 3.0, 4.5])
    close(F.l1_loss(x, y, weight=weight), 1.75)
    close(F.mse_loss(x, y, weight=weight), 3.375)
    close(F.mse_loss(x, y, size_average=False, weight=weight), 20.25)
    for loss in (F.huber_loss, F.l1_loss, F.mse_loss):
        with pytest.raises(ValueError, match="same size"):
            loss(x, y, weight=weight[:1])
        with pytest.raises(ValueError, match="reduction"):
            loss(x, y, reduction="mode", weight=weight)


def test_static_keys_and_values():
    def attend(**options):
        query = tensora.linspace(-1, 1, 2 * 2 * 4).reshape(2, 2, 4)
        weight = tensora.linspace(-0.5, 0.5, 48).reshape(12, 4)
        return F.multi_head_attention_forward(query, query, query, options.pop("width", 4), 2, weight, None,
                                              options.pop("bias", None), None, False, 0.0, tensora.eye(4), None, **options)
    keys = tensora.linspace(-2, 2, 4 * 3 * 2).reshape(4, 3, 2)
    result, weights = attend(static_k=keys, static_v=keys.flip(0))
    assert weights.shape == (2, 2, 3)
    # Numbers of PyTorch 2.15.
    tensora.testing.assert_close(result[0, 0], tensora.tensor([1.6243, 1.7982, 0.5270, 0.7010]), rtol=1e-3, atol=1e-3)
    tensora.testing.assert_close(weights[0, 0], tensora.tensor([0.1779, 0.3016, 0.5205]), rtol=1e-3, atol=1e-3)
    with pytest.raises(AssertionError, match="static_k"):
        attend(static_k=keys[:3], static_v=keys)
    with pytest.raises(AssertionError, match="embedding dimension of 5"):
        attend(width=5)


def test_out():
    a, b = tensora.arange(6.).reshape(2, 3), tensora.arange(12.).reshape(3, 4)
    out = tensora.empty(0)
    assert tensora.tensordot(a, b, 1, out=out) is out and out.equal(a @ b)
    assert tensora.tensordot(a, b, ([1], [0]), out=out) is out and out.equal(a @ b)
    out = tensora.empty(2, 3)
    assert F.normalize(a, out=out) is out and out.equal(F.normalize(a))
    assert F.normalize(a, dim=(0, 1), out=out) is out and out.equal(F.normalize(a, dim=(0, 1)))
    out = tensora.empty(())
    assert tensora.norm(a, "nuc", out=out) is out and out.equal(tensora.norm(a, "nuc"))
    assert tensora.norm(a, 3, out=out) is out and out.equal(tensora.norm(a, 3))
    for transform in (tensora.fft.ihfft2, tensora.fft.ihfftn, tensora.fft.hfft2, tensora.fft.hfftn, tensora.fft.fft2):
        expected = transform(a)
        out = tensora.empty_like(expected)
        assert transform(a, out=out) is out and out.equal(expected), transform


def test_repeat_interleave_checks_output_size():
    x = tensora.tensor([1, 2, 3])
    assert x.repeat_interleave(2, output_size=6).tolist() == [1, 1, 2, 2, 3, 3]
    assert tensora.repeat_interleave(x, tensora.tensor([1, 0, 2]), output_size=3).tolist() == [1, 3, 3]
    assert tensora.repeat_interleave(x, output_size=6).tolist() == [0, 1, 1, 2, 2, 2]
    for wrong in (lambda: x.repeat_interleave(2, output_size=5), lambda: tensora.repeat_interleave(x, output_size=3),
                  lambda: x.repeat_interleave(tensora.tensor([1, 0, 2]), output_size=4)):
        with pytest.raises(RuntimeError, match="output_size"):
            wrong()


def test_assert_close_checks_what_it_is_asked_to():
    x = tensora.ones(2, 2)
    tensora.testing.assert_close(x, x.t())
    with pytest.raises(AssertionError, match="stride"):
        tensora.testing.assert_close(x, x.t(), check_stride=True)
    with pytest.raises(AssertionError, match="stride"):
        tensora.testing.assert_close([x], [x.t()], check_stride=True)
    with pytest.raises(TypeError, match="allow_subclasses"):
        tensora.testing.assert_close(x, nn.Parameter(x), allow_subclasses=False)
    made = tensora.testing.make_tensor(3, 4, dtype=tensora.float32, noncontiguous=True)
    assert made.shape == (3, 4) and not made.is_contiguous()
    assert (tensora.testing.make_tensor(100, dtype=tensora.int64, low=-1, high=1, exclude_zero=True) != 0).all()


def test_options_that_are_not_supported_raise():
    w = nn.Parameter(tensora.ones(2))
    for kind in (optim.SGD, optim.Adam, optim.ASGD, optim.Rprop, optim.RMSprop):
        with pytest.raises(NotImplementedError, match="differentiable"):
            kind([w], differentiable=True)
        with pytest.raises(TypeError):
            kind([w], no_such_option=1)
    with pytest.raises(NotImplementedError, match="context_fn"):
        tensora.utils.checkpoint.checkpoint(tensora.exp, w, context_fn=lambda: None)
    x = tensora.ones(2, dtype=tensora.float64, requires_grad=True)
    with pytest.raises(NotImplementedError, match="masked"):
        tensora.autograd.gradcheck(tensora.exp, x, masked=True)
    with pytest.raises(TypeError):
        tensora.autograd.gradcheck(tensora.exp, x, tolerance=1)
    with pytest.raises(ValueError, match="strategy"):
        tensora.autograd.functional.jacobian(tensora.exp, x, strategy="sideways")
    with pytest.warns(UserWarning, match="eps"):
        F.gumbel_softmax(tensora.ones(1, 2), eps=1.)


def test_old_names_of_backward_and_anomaly():
    x = tensora.ones(2, requires_grad=True)
    tensora.autograd.backward(x * 2, grad_variables=tensora.tensor([1., 2.]))
    assert x.grad.tolist() == [2., 4.]
    with pytest.raises(RuntimeError, match="both"):
        tensora.autograd.backward(x * 2, x, grad_variables=x)
    y = tensora.zeros(1, requires_grad=True)
    with tensora.autograd.detect_anomaly(check_nan=False):
        (y / y).sum().backward()
    with pytest.raises(RuntimeError), tensora.autograd.detect_anomaly():
        (y / y).sum().backward()


def test_recurse():
    model = nn.Sequential(nn.Linear(2, 2))
    before = model[0].weight.data_ptr()
    model.to_empty(device="cpu", recurse=False)
    assert model[0].weight.data_ptr() == before
    model.to_empty(device="cpu")
    assert model[0].weight.data_ptr() != before


def test_custom_fwd_casts():
    seen = []

    class Double(tensora.autograd.Function):
        @staticmethod
        @tensora.amp.custom_fwd(device_type="cpu", cast_inputs=tensora.float32)
        def forward(ctx, x):
            seen.append((x.dtype, tensora.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @tensora.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(tensora.is_autocast_enabled("cpu"))
            return grad * 2
    x = tensora.ones(2, dtype=tensora.bfloat16, requires_grad=True)
    with tensora.autocast("cpu", dtype=tensora.bfloat16):
        Double.apply(x).sum().backward()
    assert seen == [(tensora.float32, False), False]
    Double.apply(x)
    assert seen[-1] == (tensora.bfloat16, False)


def test_summary_writer_says_what_it_does_not_write(tmp_path):
    from tensora.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.add_scalar("loss", 1.0, 1)
    with pytest.warns(UserWarning, match="walltime"):
        writer.add_scalar("loss", 1.0, 1, walltime=3.0)
    with pytest.warns(UserWarning, match="only scalars"):
        writer.add_image("picture", tensora.ones(3, 2, 2))
