from flambeau.facades._dynamo._trace_wrapped_higher_order_op import *
