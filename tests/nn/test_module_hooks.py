"""Hooks around forward and backward: order, arguments, replacement, removal."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections import OrderedDict
from importlib import import_module

import pytest

import flambeau
from flambeau import nn
from flambeau.core.tape.hooks import RemovableHandle


def test_forward_hooks_see_and_replace(same):
    def program(torch):
        seen = []

        class Add(torch.nn.Module):
            def forward(self, a, b=0, *, c=0):
                seen.append("forward")
                return a + b + c

        m = Add()
        handles = [
            m.register_forward_pre_hook(lambda m, args: seen.append(("pre", args))),
            m.register_forward_pre_hook(lambda m, args: args[0] + 1),
            m.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "c": 100}), with_kwargs=True),
            m.register_forward_pre_hook(lambda m, args: seen.append(("first", args)), prepend=True),
            m.register_forward_hook(lambda m, args, out: seen.append(("post", args, out))),
            m.register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True),
            m.register_forward_hook(lambda m, args, out: seen.append(("early", out)), prepend=True),
        ]
        results = [m(1), m(1, b=10)]
        for handle in handles:
            handle.remove()
            handle.remove()
        return [results, m(1), seen, lambda: m(1, d=1)]

    same(program)


def test_wrong_results_of_a_pre_hook_are_an_error(same):
    def program(torch):
        m = torch.nn.Identity()
        m.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
        return [lambda: m(1)]

    same(program)


def test_always_called_hooks_run_after_an_error(same):
    def program(torch):
        seen = []

        class Fail(torch.nn.Module):
            def forward(self, input):
                raise KeyError("no")

        m = Fail()
        m.register_forward_hook(lambda m, args, out: seen.append("plain"))
        m.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
        m.register_forward_hook(lambda m, args, kwargs, out: seen.append(("kwargs", kwargs, out)), always_call=True, with_kwargs=True)
        return [lambda: m(1), seen]

    same(program)


def test_an_error_in_an_always_called_hook_does_not_hide_the_first():
    class Fail(nn.Module):
        def forward(self, input):
            raise KeyError("first")

    m = Fail()
    m.register_forward_hook(lambda *args: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="always_call"), pytest.raises(KeyError, match="first"):
        m(1)


def test_global_hooks_come_first(same):
    def program(torch):
        register = import_module(torch.nn.Module.__module__)
        seen = []
        inner = torch.nn.Identity()
        net = torch.nn.Sequential(inner)
        handles = [
            inner.register_forward_hook(lambda m, args, out: seen.append("own")),
            inner.register_forward_pre_hook(lambda m, args: seen.append("own pre")),
            register.register_module_forward_hook(lambda m, args, out: seen.append(("all", type(m).__name__))),
            register.register_module_forward_hook(lambda m, args, kwargs, out: out + 1, with_kwargs=True),
            register.register_module_forward_pre_hook(lambda m, args: seen.append(("all pre", type(m).__name__))),
        ]
        try:
            result = net(torch.zeros(1))
        finally:
            for handle in handles:
                handle.remove()
        return [result, net(torch.zeros(1)), seen]

    same(program)


def test_full_backward_hooks(same):
    def program(torch):
        seen = []

        class Two(torch.nn.Module):
            def forward(self, a, b, c=None):
                return a * 2, b * 3, 7

        m = Two()
        m.register_full_backward_pre_hook(lambda m, grads: seen.append(("pre", grads)))
        m.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append(("post", grad_in, grad_out)))
        m.register_full_backward_hook(lambda m, grad_in, grad_out: tuple(None if g is None else g * 10 for g in grad_in))
        m.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append("first"), prepend=True)
        a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        out = m(a, b)
        (out[0] + out[1]).sum().backward()
        grads = [a.grad, b.grad]
        a.grad = b.grad = None
        m(a, b)[0].sum().backward()
        return [grads, a.grad, b.grad, seen, type(out).__name__, out[2]]

    same(program)


def test_backward_hooks_without_a_differentiable_input(same):
    def program(torch):
        seen = []
        m = torch.nn.Linear(2, 1)
        m.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 4,))
        m.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append((grad_in, grad_out)))
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            m(torch.ones(1, 2)).sum().backward()
        return [seen, m.bias.grad, len(caught), "Full backward hook is firing" in str(caught[0].message)]

    same(program)


def test_backward_hooks_check_what_hooks_return(same):
    def program(torch):
        def run(**hooks):
            m = torch.nn.Linear(2, 1)
            if "pre" in hooks:
                m.register_full_backward_pre_hook(hooks["pre"])
            if "post" in hooks:
                m.register_full_backward_hook(hooks["post"])
            m(torch.ones(1, 2, requires_grad=True)).sum().backward()

        return [
            lambda: run(pre=lambda m, grads: (1, 2)),
            lambda: run(post=lambda m, gi, go: (1, 2)),
            lambda: run(pre=lambda m, grads: grads, post=lambda m, gi, go: gi),
        ]

    same(program)


def test_old_and_full_backward_hooks_do_not_mix(same):
    def program(torch):
        a, b = torch.nn.Identity(), torch.nn.Identity()
        a.register_backward_hook(lambda *args: None)
        b.register_full_backward_hook(lambda *args: None)
        return [lambda: a.register_full_backward_hook(print), lambda: b.register_backward_hook(print)]

    same(program)


def test_old_backward_hook_sees_the_last_operation():
    seen = []
    m = nn.ReLU()
    m.register_backward_hook(lambda module, grad_in, grad_out: seen.append((module, len(grad_in), grad_out[0].tolist())))
    x = flambeau.ones(2, requires_grad=True)
    m(x * 1).sum().backward()
    assert seen == [(m, 1, [1.0, 1.0])]


def test_a_hook_put_in_the_registry_by_hand_runs():
    seen = []
    m = nn.Identity()
    m._forward_hooks[10**9] = lambda module, args, out: seen.append(out)
    m(5)
    m._forward_hooks.clear()
    m(6)
    assert seen == [5]


def test_hooks_of_a_copy_are_its_own():
    import copy

    seen = []
    m = nn.Identity()
    handle = m.register_forward_hook(lambda module, args, out: seen.append(module))
    twin = copy.deepcopy(m)
    handle.remove()
    twin(1)
    m(1)
    assert seen == [twin]


def test_handle_forgets_every_registry():
    hooks, flags = OrderedDict(), OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=[flags])
    hooks[handle.id] = flags[handle.id] = True
    with handle:
        assert hooks
    assert not hooks and not flags


def test_handle_works_on_a_plain_dict():
    hooks = {}
    handle = RemovableHandle.add(hooks, print)
    assert list(hooks.values()) == [print]
    handle.remove()
    assert not hooks


def test_handle_does_not_keep_the_hooks_alive():
    hooks = OrderedDict()
    handle, alive = RemovableHandle(hooks), weakref.ref(hooks)
    del hooks
    gc.collect()
    assert alive() is None
    handle.remove()


def test_handle_survives_pickling():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=OrderedDict())
    hooks[handle.id] = 5
    twin_hooks, twin = pickle.loads(pickle.dumps((hooks, handle)))
    assert twin_hooks and twin.id == handle.id
    twin.remove()
    assert not twin_hooks and hooks
    assert RemovableHandle(hooks).id > handle.id
