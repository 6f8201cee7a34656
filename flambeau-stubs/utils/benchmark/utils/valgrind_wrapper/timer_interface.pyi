from flambeau.utils.benchmark import CallgrindStats as CallgrindStats
from flambeau.utils.benchmark import CopyIfCallgrind as CopyIfCallgrind
from flambeau.utils.benchmark import FunctionCount as FunctionCount
from flambeau.utils.benchmark import FunctionCounts as FunctionCounts
