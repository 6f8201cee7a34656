"""``torch.distributed._tensor.experimental``: beside tensors spread over processes, which are not implemented yet."""

from __future__ import annotations

from ...facades import unsupported

globals().update(unsupported.names("distributed._tensor.experimental", "context_parallel implicit_replication local_map register_sharding"))
