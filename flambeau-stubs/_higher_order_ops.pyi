from flambeau.fx.control_flow import cond as cond
from flambeau.fx.control_flow import cond_op as cond_op
from flambeau.fx.control_flow import while_loop as while_loop
from flambeau.fx.control_flow import while_loop_op as while_loop_op
