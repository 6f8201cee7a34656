"""Random programs, the same source text run by PyTorch and by flambeau, and what differs.

    python -m tests.differential --area views --seconds 60           # with a new seed, which is printed
    python -m tests.differential --area views --seed 7 --count 1000  # programs 7, 8, ... 1006
    python -m tests.differential --area views --seed 1234 --count 1  # one of them again

A program is a list of statements of Python and follows from its area and its seed alone.  Each statement is executed in two namespaces of
one process, in which ``torch`` is flambeau in one and PyTorch in the other; after it the area compares what it is about.

    seed -> statements -> statement by statement: both namespaces -> difference -> known? -> shrunk to the smallest that still differs

An area is a module of this package with an ``AREA`` (see ``area.Area``): how its programs are drawn, what of them is compared, and which
differences are known, each with its reason.  Modules are found by that name: a new area is a new file.

Programs run in child processes, some hundreds in each: one that ends its process, or does not end itself, is reported by its seed like any
other, and those after it run in a new process.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[1]  # areas use what other tests have, such as ``libraries`` and ``records``
sys.path += [folder for folder in map(str, (_TESTS, _TESTS / "helpers")) if folder not in sys.path]
