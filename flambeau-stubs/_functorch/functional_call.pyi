from flambeau.func import functional_call as functional_call
from flambeau.func import stack_module_state as stack_module_state
