from flambeau.utils.benchmark import FuzzedParameter as FuzzedParameter
from flambeau.utils.benchmark import FuzzedTensor as FuzzedTensor
from flambeau.utils.benchmark import Fuzzer as Fuzzer
from flambeau.utils.benchmark import ParameterAlias as ParameterAlias
