"""Event files for TensorBoard; the C++ logger writes them."""
import os
import time
import warnings

from .. import _C
from .._C import Tensor


def _no_effect(where, **given):
    """Warns of options that the files do not follow."""
    for name, value in given.items():
        if value:
            warnings.warn(f"SummaryWriter.{where}: {name} has no effect", stacklevel=3)


class SummaryWriter:
    """Writes scalars, texts and histograms of a run."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        _no_effect("__init__", purge_step=purge_step, filename_suffix=filename_suffix)
        self.log_dir = os.fspath(log_dir) if log_dir else os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + comment)
        os.makedirs(self.log_dir, exist_ok=True)
        self._logger = _C._TensorBoardLogger(self.log_dir)
        self._last = 0

    def _step(self, step):
        """Steps do not decrease in a file."""
        self._last = max(self._last, 0 if step is None else int(step))
        return self._last

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        _no_effect("add_scalar", walltime=walltime)
        self._logger.scalars(self._step(global_step), [(tag, float(scalar_value))])

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        _no_effect("add_scalars", walltime=walltime)
        self._logger.scalars(self._step(global_step), [(f"{main_tag}/{k}", float(v)) for k, v in tag_scalar_dict.items()])

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        _no_effect("add_text", walltime=walltime)
        self._logger.text(self._step(global_step), tag, text_string)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        _no_effect("add_histogram", walltime=walltime, bins=bins != "tensorflow", max_bins=max_bins)
        values = values if isinstance(values, Tensor) else _C.tensor(values)
        self._logger.histogram(self._step(global_step), tag, values.detach())

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        _no_effect("add_hparams", hparam_domain_discrete=hparam_domain_discrete, run_name=run_name)
        self.add_text("hparams", "\n".join(f"{k}: {v}" for k, v in hparam_dict.items()))
        self.add_scalars("hparam", metric_dict, global_step)

    def _unwritten(self, *args, **kwargs):
        """Graphs, images and embeddings are not written, which a warning says."""
        warnings.warn("SummaryWriter: only scalars, texts and histograms are written", stacklevel=2)

    add_graph = add_image = add_images = add_figure = add_embedding = _unwritten

    def flush(self):
        """Nothing waits: every call is on the disk when it returns."""

    def close(self):
        self._logger = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
