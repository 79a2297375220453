"""torch._inductor and torch._logging: switches of a compiler that is not used here; they are kept."""
from .settings import Settings

config = Settings("torch._inductor.config", coordinate_descent_tuning=False, max_autotune=False, fx_graph_cache=True,
                  epilogue_fusion=True, debug=False, force_fuse_int_mm_with_mul=False, use_mixed_mm=True,
                  triton=Settings("torch._inductor.config.triton", unique_kernel_names=True, cudagraphs=False,
                                  cudagraph_trees=True),
                  cpp=Settings("torch._inductor.config.cpp", threads=-1, simdlen=None),
                  compile_threads=1, conv_1x1_as_mm=False, freezing=False, shape_padding=True)


def list_options():
    return sorted(config._defaults)


def set_logs(**levels):
    """Which of PyTorch's compiler logs are written: there are none, so any level is a mistake but None."""
    if any(level is not None for level in levels.values()):
        import warnings
        warnings.warn("set_logs: PyTorch's compiler is not used here, so nothing is logged", stacklevel=2)
