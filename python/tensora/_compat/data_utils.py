"""torch.utils.data._utils: parts of the loader by PyTorch's file names."""
import types

from ..utils.data import collate as collate  # noqa: F401
from ..utils.data.loader import get_worker_info
from . import refused

worker = types.SimpleNamespace(get_worker_info=get_worker_info,
                               WorkerInfo=refused("torch.utils.data._utils.worker.WorkerInfo", "workers are threads"))
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between looks at a worker in PyTorch; workers are threads here
