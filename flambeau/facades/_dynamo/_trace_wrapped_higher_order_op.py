"""``torch._dynamo._trace_wrapped_higher_order_op``: a name of the tracer, which is not implemented."""

from __future__ import annotations

from .. import unsupported

globals().update(unsupported.names("_dynamo._trace_wrapped_higher_order_op", "", "TransformGetItemToIndex"))
