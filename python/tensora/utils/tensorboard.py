"""Event files for TensorBoard; the C++ logger writes them."""
import os
import time

from .. import _C
from .._C import Tensor


class SummaryWriter:
    """Writes scalars, texts and histograms of a run."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = os.fspath(log_dir) if log_dir else os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + comment)
        os.makedirs(self.log_dir, exist_ok=True)
        self._logger = _C._TensorBoardLogger(self.log_dir)
        self._last = 0

    def _step(self, step):
        """Steps do not decrease in a file."""
        self._last = max(self._last, 0 if step is None else int(step))
        return self._last

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        self._logger.scalars(self._step(global_step), [(tag, float(scalar_value))])

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        self._logger.scalars(self._step(global_step), [(f"{main_tag}/{k}", float(v)) for k, v in tag_scalar_dict.items()])

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        self._logger.text(self._step(global_step), tag, text_string)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        values = values if isinstance(values, Tensor) else _C.tensor(values)
        self._logger.histogram(self._step(global_step), tag, values.detach())

    def add_hparams(self, hparam_dict, metric_dict, **_):
        self.add_text("hparams", "\n".join(f"{k}: {v}" for k, v in hparam_dict.items()))
        self.add_scalars("hparam", metric_dict)

    def add_graph(self, *args, **kwargs):
        """Graphs are not written."""

    add_image = add_images = add_figure = add_embedding = add_graph

    def flush(self):
        """Nothing waits: every call is on the disk when it returns."""

    def close(self):
        self._logger = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
