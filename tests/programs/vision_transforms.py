"""``python -m tests.programs.vision_transforms [--seeds N] [NAME ...]``: the cases of transforms with many seeds, beside torchvision.

Prints the cases whose results differ by more than they may, and returns 1 if there are any; the suite runs few seeds of each.
"""

from __future__ import annotations

import argparse
import sys
import warnings

from oracle import pytorch
from oracle_vision import torchvision
from vision.test_transforms import CASES, assert_equal, outputs

import flambeau


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases; all unless told")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    torchvision()
    torch = pytorch()

    warnings.simplefilter("ignore")
    runs, differing = 0, 0
    for form, case in CASES:
        if options.names and case.name not in options.names:
            continue
        for kind in case.kinds:
            for seed in range(options.seeds):
                expected = outputs(form, case, kind, seed, torch, "torchvision")
                runs += 1
                try:
                    result = outputs(form, case, kind, seed, flambeau, "flambeau.vision")
                    for output, wanted in zip(result, expected, strict=True):
                        assert_equal(output, wanted, case)
                except Exception as error:
                    differing += 1
                    words = " ".join(line.strip() for line in str(error).splitlines() if "Mismatch" in line or "Max abs" in line)
                    print(f"{form}, {case.name}, {kind}, seed {seed}: {type(error).__name__} {words or str(error)[:200]}")
    print(f"{differing} of {runs} runs differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
