from flambeau.utils.benchmark import FuzzedSparseTensor as FuzzedSparseTensor
