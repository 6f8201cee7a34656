"""``torch.distributed.launcher``: the launcher as a function."""

from ...core import late as _late
from .api import LaunchConfig as LaunchConfig, elastic_launch as elastic_launch, launch_agent as launch_agent

_late.adopt(__name__)
