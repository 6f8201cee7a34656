"""state_dict and load_state_dict: keys, errors, hooks, versions."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn


def net_of(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 3)
            self.norm = nn.BatchNorm1d(3)
            self.scalar = nn.Parameter(torch.tensor(1.0))
            self.register_buffer("kept", torch.ones(2))
            self.register_buffer("dropped", torch.ones(2), persistent=False)
            self.register_parameter("none", None)

    return Net()


def test_keys_metadata_and_memory():
    net = net_of(flambeau)
    state = net.state_dict()
    assert list(state) == [
        "scalar",
        "kept",
        "first.weight",
        "first.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert dict(state._metadata) == {"": {"version": 1}, "first": {"version": 1}, "norm": {"version": 2}}
    assert not state["first.weight"].requires_grad
    state["first.weight"].zero_()
    assert net.first.weight.sum().item() == 0
    assert net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
    assert next(iter(net.state_dict(prefix="p.", destination={}))) == "p.scalar"


def test_loading_copies_and_reports_nothing():
    source, target = net_of(flambeau), net_of(flambeau)
    weight = target.first.weight
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert target.first.weight is weight
    assert weight.tolist() == source.first.weight.tolist()


def test_loading_by_assignment_takes_the_tensors():
    net = nn.Linear(2, 2)
    net.weight.requires_grad_(False)
    values = {"weight": flambeau.ones(2, 2), "bias": flambeau.zeros(2)}
    net.load_state_dict(values, assign=True)
    assert isinstance(net.weight, nn.Parameter)
    assert net.weight.data_ptr() == values["weight"].data_ptr()
    assert not net.weight.requires_grad and net.bias.requires_grad


def test_positional_arguments_of_state_dict_are_deprecated():
    with pytest.warns(FutureWarning, match="Positional args"):
        state = nn.Linear(1, 1).state_dict({}, "p.", True)
    assert list(state) == ["p.weight", "p.bias"]


def test_all_problems_are_in_one_message(same):
    def program(torch):
        def changed(*removed, **added):
            state = net_of(torch).state_dict()
            for key in removed:
                del state[key]
            state.update({key.replace("__", "."): value for key, value in added.items()})
            return state

        def load(state, **options):
            return lambda: net_of(torch).load_state_dict(state, **options)

        return [
            load({}),
            load({}, strict=False),
            load([1]),
            load(changed("kept", "first.weight")),
            load(changed("kept", "first.weight"), strict=False),
            load(changed(extra=1, first__more=2, first__a__b=3, nowhere__x=1, none=torch.ones(1))),
            load(changed(extra=1, first__more=2), strict=False),
            load(changed("kept", extra=1, first__weight=torch.ones(5, 5), scalar=torch.ones(2))),
            load(changed(first__weight=torch.ones(5, 5)), strict=False),
            load(changed(kept=3)),
            load(changed(scalar=torch.ones(1))),
            load(changed(scalar=torch.ones(1)), assign=True),
        ]

    same(program)


def test_extra_state(same):
    def program(torch):
        class Extra(torch.nn.Module):
            def get_extra_state(self):
                return {"steps": 7}

            def set_extra_state(self, state):
                self.state = state

        net = torch.nn.Sequential(Extra())
        state = net.state_dict()
        result = net.load_state_dict(state)
        return [
            state,
            result,
            net[0].state,
            lambda: net.load_state_dict({}),
            lambda: torch.nn.Sequential(torch.nn.Identity()).load_state_dict(state),
        ]

    same(program)


def test_hooks_around_saving(same):
    def program(torch):
        nn = torch.nn
        seen = []
        inner = nn.Linear(1, 1, bias=False)
        net = nn.Sequential(inner)
        first = inner.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))

        def post(module, state, prefix, metadata):
            seen.append(("post", prefix, sorted(state), metadata))
            state[prefix + "added"] = 1

        second = inner.register_state_dict_post_hook(post)
        keys = list(net.state_dict(keep_vars=True))
        first.remove()
        second.remove()
        again = list(net.state_dict())
        inner.register_state_dict_post_hook(lambda *args: 3)
        wrong = nn.Linear(1, 1)
        wrong._register_state_dict_hook(lambda m, state, prefix, metadata: {"replaced": 1})
        return [keys, again, seen, lambda: net.state_dict(), lambda: wrong.state_dict(), lambda: wrong._register_state_dict_hook(post)]

    same(program)


def test_hooks_around_loading(same):
    def program(torch):
        nn = torch.nn
        seen = []
        inner = nn.Linear(1, 1, bias=False)
        net = nn.Sequential(inner, nn.Linear(1, 1))

        def pre(module, state, prefix, metadata, strict, missing, unexpected, errors):
            seen.append((type(module).__name__, sorted(state), prefix, metadata, strict))
            state[prefix + "weight"] = torch.full((1, 1), 5.0)

        def post(module, keys):
            seen.append((keys.missing_keys[:], keys.unexpected_keys[:]))
            keys.missing_keys.clear()

        inner.register_load_state_dict_pre_hook(pre)
        inner._register_load_state_dict_pre_hook(lambda *args: seen.append(len(args)))
        net.register_load_state_dict_post_hook(post)
        result = net.load_state_dict({"1.weight": torch.ones(1, 1)})
        bad = nn.Linear(1, 1)
        bad.register_load_state_dict_post_hook(lambda m, keys: 3)
        return [result, inner.weight, seen, lambda: bad.load_state_dict(bad.state_dict())]

    same(program)


def test_a_module_may_read_an_older_version(same):
    def program(torch):
        class Renamed(torch.nn.Linear):
            _version = 3

            def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
                if local_metadata.get("version", 1) < 3:
                    state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
                super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

        net = torch.nn.Sequential(Renamed(1, 1, bias=False))
        old = {"0.kernel": torch.full((1, 1), 2.0)}
        result = net.load_state_dict(old)
        return [result, net[0].weight, list(old), net.state_dict()._metadata, lambda: net.load_state_dict(net.state_dict())]

    same(program)


def test_batch_norm_without_a_count_loads(same):
    def program(torch):
        net = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
        old = {f"0.{name}": torch.full((1,), 2.0) for name in ("weight", "bias", "running_mean", "running_var")}
        return [lambda: net.load_state_dict(old), lambda: net.state_dict()]

    same(program)


def test_statistics_for_an_untracked_instance_norm_are_an_error():
    stats = {"running_mean": flambeau.ones(1), "running_var": flambeau.ones(1)}
    with pytest.raises(RuntimeError, match=r'Unexpected running stats buffer\(s\) "running_mean" and "running_var" for InstanceNorm1d'):
        nn.InstanceNorm1d(1).load_state_dict(stats)


def test_children_under_names_with_dots_load(same):
    def program(torch):
        net = torch.nn.Module()
        net._modules["a.b"] = torch.nn.Linear(1, 1, bias=False)
        return [lambda: net.load_state_dict({"a.b.weight": torch.ones(1, 1)}, strict=False), net._modules["a.b"].weight]

    same(program)
