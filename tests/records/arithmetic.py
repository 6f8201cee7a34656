from .record import pointwise
import numpy as np
RECORDS=(pointwise("add",2,lambda a,b,alpha=1:a+alpha*b,scalars=(2,),extra=({},{"alpha":2})),pointwise("mul",2,np.multiply,scalars=(2,2.5)),pointwise("tanh",1,np.tanh))
