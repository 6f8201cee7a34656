"""Which tests are asked about a change: those that are known to run the function (``reaching``), that name the operations it reaches, then
those of its family, then a few of all."""

from __future__ import annotations

import ast
import random
import re
from functools import cache

from sources import parsed

from .changes import PACKAGE, Site
from .reaching import reached as reached_by

#: Tests of what has no operation's name, by folder: paths that a test's id begins with, below ``tests/``.
FOLDERS = {
    "func/": ("test_func", "test_vmap", "autograd/test_forward", "autograd/test_function_tr", "nn/test_func"),
    "autograd/": ("autograd/", "recipes/test_autograd", "test_interruption"),
    "core/tape/": ("autograd/", "test_views", "test_view_programs", "test_written_in_place", "test_strided_writes"),
    "core/storage": ("test_views", "test_view_programs", "test_serialization", "test_tensor_protocols", "test_written_in_place"),
    "core/tensor": ("test_tensor_protocols", "test_views", "test_from_data", "autograd/", "test_printing"),
    "core/calls/": (
        "test_pointwise_forms", "test_dtypes", "test_factories", "test_tensor_protocols", "test_mixed", "test_torch_overrides",
        "autograd/test_overrides", "test_autocast", "test_bad_input", "test_torch_dispatch", "test_modes", "test_limits",
        "test_fast_path", "test_zero_sizes",
    ),
    "core/arrays/": ("test_meta", "test_fake", "devices/", "test_sparse"),
    "core/shape": ("test_views", "test_bad_input", "test_zero_sizes", "test_indexing"),
    "core/dtype": ("test_dtypes", "test_pointwise_forms"),
    "core/random/": ("test_random_streams", "test_distributions"),
    "core/protocols/": ("test_serialization", "test_whole_pickles", "test_hostile", "test_quantized", "test_tensor_protocols"),
    "serialization/": ("test_serialization", "test_whole_pickles", "test_hostile", "test_fuzzed", "test_file", "recipes/"),
    "nn/": ("nn/", "recipes/test_layers", "recipes/test_training"),
    "optim/": ("optim/", "recipes/test_training"),
    "kernels/": ("kernels/",),
}  # fmt: skip
LONG = 4  # letters of a name that may be looked for inside of words


@cache
def _definitions() -> dict[str, set[str]]:
    """Functions and classes at the top of modules, with the names that each mentions, over the whole package."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in parsed(path).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                parts = (part for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))
                words = {part.id if isinstance(part, ast.Name) else part.attr for part in parts}
                found.setdefault(node.name, set()).update(words - {node.name})
    return found


@cache
def _spellings() -> dict[str, set[str]]:
    """Functions at the top of modules, with the names that their decorators give them."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in parsed(path).body:
            calls = [part for part in getattr(node, "decorator_list", []) if isinstance(part, ast.Call)]
            for word in [word for call in calls for word in call.keywords if word.arg == "name" and isinstance(word.value, ast.Constant)]:
                found.setdefault(node.name, set()).add(word.value.value)
    return found


@cache
def _importers(stem: str) -> frozenset[str]:
    """Modules of kernels that import another, directly or not."""
    found: set[str] = {stem}
    while True:
        more = {
            path.stem
            for path in PACKAGE.glob("kernels/**/*.py")
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.ImportFrom) and {node.module, *(name.name for name in node.names)} & found
        } - {"__init__", *found}
        if not more or len(found) > 12:  # what all use is in all tests of kernels
            return frozenset(found)
        found |= more


@cache
def _users(name: str) -> tuple[str, ...]:
    return tuple(sorted(user for user, words in _definitions().items() if name in words))


def reached(site: Site) -> list[list[str]]:
    """Names from near to far: the changed function's own, its users', theirs."""
    names, rings = {site.within.partition(".")[0]}, []
    known: set[str] = set()
    for _ in range(4):
        ring = sorted(names - known)
        if not ring:
            break
        rings.append(ring)
        known |= names
        names = {user for name in ring for user in _users(name)} if len(ring) < 40 else set()
    return rings


def known(site: Site) -> list[str]:
    """Tests that are known to run the changed function, the most particular first."""
    keys = (site.path, f"line {site.rule}"), (site.path, site.within)
    return next((reached_by()[key] for key in keys if key in reached_by()), [])


def chosen(site: Site, ids: list[str], seed: int, limit: int) -> list[int]:
    """Places in ``ids`` of at most ``limit`` tests, the likeliest first."""
    chance, taken = random.Random(f"{seed} {site.key}"), {}

    def take(numbers: list[int], most: int) -> None:
        fresh = [number for number in numbers if number not in taken]
        for number in chance.sample(fresh, min(most, len(fresh))):
            taken[number] = None

    places = {name: number for number, name in enumerate(ids)} if known(site) else {}
    run_it = [places[name] for name in known(site) if name in places]
    taken.update(dict.fromkeys(run_it[: limit // 3]))  # the most particular
    take(run_it, limit // 3)
    stem = site.path.rpartition("/")[2].removesuffix(".py").strip("_")
    for distance, ring in enumerate(reached(site)):
        spelt = {name.strip("_") for name in ring for name in (name, *_spellings().get(name, ()))}
        words = sorted(spelt | {name for name in (site.within.rpartition(".")[2].strip("_"),) if not distance})
        exact = re.compile(r"(?<![A-Za-z0-9])(" + "|".join(map(re.escape, words)) + r")(?![A-Za-z0-9])")
        take([number for number, name in enumerate(ids) if exact.search(name)], limit // 2 >> distance)
        inside = [word for word in words if len(word) >= LONG]
        if inside and distance < 2:
            loose = re.compile("|".join(map(re.escape, inside)))
            take([number for number, name in enumerate(ids) if loose.search(name)], limit // 6 >> distance)
    files = [name.partition("::")[0] for name in ids]
    take([number for number, file in enumerate(files) if stem in file], limit // 3)
    if site.path.startswith("kernels/"):
        for user in sorted(_importers(stem)):
            take([number for number, file in enumerate(files) if f"/test_{user}." in file], limit // 6)
    for folder, paths in FOLDERS.items():
        if site.path.startswith(folder):
            take([number for number, name in enumerate(ids) if name.removeprefix("tests/").startswith(paths)], limit // 2)
    take(list(range(len(ids))), max(limit - len(taken), limit // 8))
    return list(taken)[: limit + limit // 8]
