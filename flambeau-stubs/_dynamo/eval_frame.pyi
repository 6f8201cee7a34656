from flambeau.facades._dynamo.eval_frame import *
