"""The old place of automatic mixed precision on the GPU."""
from ..amp import GradScaler, autocast, custom_bwd, custom_fwd  # noqa: F401
