"""What ``DistributedDataParallel`` and its relatives do in two processes or more; ``test_ddp.py`` runs it."""

from __future__ import annotations

import copy
import importlib
import io
import itertools
import pickle
import re
import warnings

import pytest
from distributed.together import close

import flambeau as torch
from flambeau import nn

dist = torch.distributed
DDP = nn.parallel.DistributedDataParallel


def mlp(*sizes, dtype=torch.float64):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b, dtype=dtype), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Choice(nn.Module):
    """One of two branches, then a common layer."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4).double(), nn.Linear(4, 4).double(), nn.Linear(4, 1).double()

    def forward(self, x, which):
        return self.c(getattr(self, which)(x))


def parts(rank, world, n=6, features=4):
    whole = torch.randn(n, features, dtype=torch.float64)
    return whole, whole[rank * n // world : (rank + 1) * n // world]


def grads(module):
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def check_gradients_are_those_of_the_whole_batch(rank, world):
    for options in (
        {}, {"bucket_cap_mb": 0.0005}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True},
        {"bucket_cap_mb_list": [1, 2]}, {"static_graph": True, "gradient_as_bucket_view": True},
    ):  # fmt: skip
        torch.manual_seed(1)
        one = mlp(4, 8, 8, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = DDP(copy.deepcopy(one), **options)
        a, b = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for step in range(5):
            whole, mine = parts(rank, world)
            a.zero_grad(set_to_none=step % 2 == 0)
            b.zero_grad(set_to_none=step % 2 == 0)
            one(whole).square().mean().backward()
            net(mine).square().mean().backward()
            a.step()
            b.step()
        for p, q in zip(one.parameters(), net.module.parameters()):
            close(q, p, 1e-14)
            close(q.grad, p.grad, 1e-14)


def check_parameters_and_buffers_become_those_of_rank_0(rank, world):
    torch.manual_seed(rank)
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    net[1].num_batches_tracked.fill_(rank + 5)
    net[1].running_mean.fill_(rank)
    DDP(net)
    torch.manual_seed(0)
    assert torch.equal(net[0].weight, nn.Linear(3, 2).weight)
    assert net[1].num_batches_tracked.item() == 5 and net[1].running_mean.tolist() == [0, 0]


def check_buffers_follow_rank_0_before_each_forward_pass(rank, world):
    for option, expected in ((None, 7), (False, 7 + rank)):
        net = DDP(nn.BatchNorm1d(2, momentum=0.0), broadcast_buffers=option)
        net(torch.randn(4, 2)).sum().backward()
        net.module.running_mean.fill_(7 + rank)
        net(torch.randn(4, 2)).sum().backward()
        assert net.module.running_mean.tolist() == [expected, expected]


def check_buckets_are_reduced_while_the_pass_goes_on(rank, world):
    net = DDP(mlp(4, 64, 64, 64, 1), bucket_cap_mb=0.01)
    assert len(net.reducer.buckets) > 2
    begun, order = [], []
    reduce = net.reducer._reduce
    net.reducer._reduce = lambda bucket: (begun.append(bucket.index), order.append("bucket"), reduce(bucket))[0]
    net.module[0].register_full_backward_hook(lambda *_: order.append("first layer"))
    net(torch.randn(2, 4, dtype=torch.float64)).sum().backward()
    assert begun == list(range(len(net.reducer.buckets))) and order.index("bucket") < order.index("first layer")


def check_buckets_are_cut_in_the_order_in_which_gradients_come(rank, world):
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.first = nn.Linear(4, 4), nn.Linear(4, 4)  # registered the wrong way round

        def forward(self, x):
            return self.last(self.first(x))

    net = DDP(Backwards(), bucket_cap_mb=0.00007)
    assert net.reducer.buckets[0].members[0] == 3
    for _ in range(2):
        net(torch.randn(2, 4)).sum().backward()
    assert sorted(net.reducer.buckets[0].members) in ([0, 1], [0], [1])
    data = net._get_ddp_logging_data()
    assert data["has_rebuilt_buckets"] == 1 and data["iteration"] == 1 and data["world_size"] == world
    assert data["rebuilt_bucket_sizes"] and data["avg_backward_comm_time"] > 0 and data["module_name"] == "Backwards"


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return None


def check_a_gradient_that_is_undefined_counts_as_zeros(rank, world):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.used(x) + _NoGradient.apply(3 * self.unused)

    model = DDP(Half())
    for _ in range(2):
        model(torch.ones(1, 2) * (1 + rank)).sum().backward()
    mean = sum(range(1, world + 1)) / world
    assert model.module.unused.grad.tolist() == [0, 0] and model.module.used.bias.grad.tolist() == [2, 2]
    close(model.module.used.weight.grad, torch.full((2, 2), 2 * mean), 1e-6)


def check_modules_that_compute_in_a_narrower_dtype(rank, world):
    from flambeau.nn.parallel.distributed import _MixedPrecision

    _, x = parts(rank, world)
    plain = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    mixed = DDP(copy.deepcopy(plain), mixed_precision=_MixedPrecision(torch.bfloat16, torch.float64, torch.bfloat16))
    plain = DDP(plain)
    outputs = [model(x.float()) for model in (plain, mixed)]
    for output in outputs:
        output.float().square().mean().backward()
    assert outputs[1].dtype is torch.bfloat16 and mixed.module[1].running_mean.dtype is torch.bfloat16
    for ours, expected in zip(mixed.parameters(), plain.parameters(), strict=True):
        assert ours.dtype is ours.grad.dtype is torch.float32
        close(ours.grad, expected.grad, 0.1)
        both = [torch.zeros_like(ours) for _ in range(world)]
        dist.all_gather(both, ours.grad)
        assert all(torch.equal(each, ours.grad) for each in both)


def check_modules_that_are_replicated_in_place(rank, world):
    from flambeau.distributed._composable import replicate

    whole, x = parts(rank, world)
    model = mlp(4, 3, 1)
    single = copy.deepcopy(model)
    single(whole).square().mean().backward()
    assert replicate(model) is model
    for _ in range(2):
        model.zero_grad()
        model(x).square().mean().backward()
    for ours, expected in zip(grads(model), grads(single), strict=True):
        close(ours, expected, 1e-12)
    with pytest.raises(RuntimeError, match="already managed"):
        replicate(model)
    layer = replicate(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), ignored_modules=())
    assert isinstance(layer, nn.Sequential)


def check_helpers_of_distributed_programs(rank, world):
    utils = importlib.import_module("flambeau.distributed.utils")
    layer = nn.Linear(2, 2)
    layer.weight.data.fill_(rank)
    utils._sync_module_states(layer, dist.group.WORLD, 1 << 20, 1, set())
    assert layer.weight.tolist() == [[1, 1], [1, 1]]
    last, own = dist.new_group([world - 1]), torch.full((2,), 1.0 * rank)
    if rank == world - 1:
        utils._sync_params_and_buffers(last, [own], 1 << 20, 0)  # a rank of the group
    assert own.tolist() == [rank, rank]
    utils._verify_param_shape_across_processes(dist.group.WORLD, list(layer.parameters()))
    with pytest.raises(RuntimeError):
        utils._verify_param_shape_across_processes(dist.group.WORLD, [torch.zeros(2 + rank)])
    assert utils._unpack_kwargs(*utils._pack_kwargs(1, 2, a=3)) == ((1, 2), {"a": 3})
    with dist.record_comm("named"):
        dist.all_reduce(torch.ones(1))
    assert dist.GroupName("x") == "x" and dist._remote_device("rank:1").rank() == 1


def check_no_sync_adds_up_on_each_rank(rank, world):
    for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = mlp(4, 3, 1)
            net = DDP(copy.deepcopy(one), **options)
        for _ in range(3):
            first, second = parts(rank, world), parts(rank, world)
            one.zero_grad()
            net.zero_grad()
            (one(first[0]).square().mean() + one(second[0]).square().mean()).backward()
            with net.no_sync():
                net(first[1]).square().mean().backward()
            net(second[1]).square().mean().backward()
            for p, q in zip(one.parameters(), net.parameters()):
                close(q.grad, p.grad, 1e-14)
    with net.no_sync():
        net.zero_grad()
        net(first[1] + rank).square().mean().backward()
    theirs = [None] * world
    dist.all_gather_object(theirs, net.module[0].weight.grad.tolist())
    assert theirs[0] != theirs[1]


def check_unused_parameters(rank, world):
    one = Choice()
    net = DDP(copy.deepcopy(one), find_unused_parameters=True)
    whole, mine = parts(rank, world)
    for _ in range(3):
        one.zero_grad()
        net.zero_grad()
        halves = whole[:3], whole[3:]
        ((one(halves[0], "a").mean() + one(halves[1], "b").mean()) / 2).backward()
        net(mine, "a" if rank == 0 else "b").mean().backward()
        for p, q in zip(one.parameters(), net.parameters()):
            close(q.grad, p.grad, 1e-14)
    net.zero_grad()
    net(mine, "a").mean().backward()
    assert net.module.b.weight.grad is None and net.module.a.weight.grad is not None
    net.module.b.weight.grad = torch.full((4, 4), float(rank), dtype=torch.float64)
    net(mine, "a").mean().backward()
    assert net.module.b.weight.grad.unique().tolist() == [rank]  # unused everywhere: untouched


def check_unused_parameters_without_the_option_raise_in_the_next_forward_pass(rank, world):
    net = DDP(Choice())
    x = torch.randn(2, 4, dtype=torch.float64)
    net(x, "a").mean().backward()
    expected = "Expected to have finished reduction in the prior iteration before starting a new one"
    with pytest.raises(RuntimeError, match=expected) as raised:
        net(x, "a")
    assert re.search(rf"did not receive grad for rank {rank}: 2 3$", str(raised.value))


def check_an_output_that_the_loss_does_not_use(rank, world):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return {"a": self.a(x), "b": [self.b(x)]}

    net = DDP(Two(), find_unused_parameters=True)
    for _ in range(2):
        net(torch.ones(1, 2) * (rank + 1))["a"].sum().backward()
    assert net.module.a.weight.grad.unique().tolist() == [3.0] and net.module.b.weight.grad is None


def check_static_graphs_take_unused_parameters_and_reentrant_checkpoints(rank, world):
    from flambeau.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.body, self.unused = mlp(4, 4), mlp(4, 4, 4), nn.Linear(2, 2).double()

        def forward(self, x, through=checkpoint):
            x = self.first(x)
            for _ in range(2):  # the same layers twice
                x = through(self.body, x, use_reentrant=True) if through else self.body(x)
            return x

    one = Net()
    net = DDP(copy.deepcopy(one), static_graph=True, bucket_cap_mb=0.0001)
    for _ in range(3):
        whole, mine = parts(rank, world)
        one.zero_grad()
        net.zero_grad()
        one(whole, None).square().mean().backward()
        net(mine).square().mean().backward()
        for p, q in zip(one.parameters(), net.parameters()):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                close(q.grad, p.grad, 1e-13)
    plain = DDP(Net(), find_unused_parameters=True)
    with pytest.raises(RuntimeError, match="Expected to mark a variable ready only once"):
        plain(mine).mean().backward()


def check_one_backward_pass_of_two_forward_passes(rank, world):
    net = DDP(nn.Linear(2, 1, bias=False))
    (net(torch.ones(1, 2)) + net(torch.ones(1, 2) * (rank + 1))).sum().backward()
    assert net.module.weight.grad.tolist() == [[2.5, 2.5]]
    (given,) = torch.autograd.grad(net(torch.ones(1, 2)).sum(), net.module.weight)
    assert given.tolist() == [[1, 1]]
    net.zero_grad()
    loss = net(torch.ones(1, 2) * (rank + 1)).sum()
    loss.backward()
    assert net.module.weight.grad.tolist() == [[1.5, 1.5]]


def check_views_of_buckets(rank, world):
    net = DDP(nn.Linear(2, 2), gradient_as_bucket_view=True)
    net(torch.ones(1, 2)).sum().backward()
    net(torch.ones(1, 2)).sum().backward()
    flat = net.reducer.buckets[0].flat
    assert {p.grad.untyped_storage().data_ptr() for p in net.parameters()} == {flat.untyped_storage().data_ptr()}
    net.zero_grad(set_to_none=False)
    assert flat.abs().max().item() == 0
    net(torch.ones(1, 2)).sum().backward()
    assert net.module.weight.grad.tolist() == [[1, 1], [1, 1]]


def check_mixed_dtypes_layouts_and_frozen_parameters(rank, world):
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3, 2))
    net[0].to(memory_format=torch.channels_last)
    net[2].to(torch.bfloat16)
    net[2].bias.requires_grad_(False)

    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net[2](self.net[1](self.net[0](x)).to(torch.bfloat16))

    ddp = DDP(Cast())
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.full((1, 2, 3, 3), float(rank + 1))).sum().backward()
    assert len(ddp.reducer.buckets) == 2 and net[2].bias.grad is None
    close(net[0].weight.grad, torch.full_like(net[0].weight, 1.5) * net[2].weight.detach().float().sum(0).view(3, 1, 1, 1), 2e-2)
    assert net[0].weight.grad.stride() == net[0].weight.stride()


def check_sparse_gradients(rank, world):
    one = nn.Sequential(nn.Embedding(10, 3, sparse=True), nn.Linear(3, 1)).double()
    net = DDP(copy.deepcopy(one))
    ids = torch.tensor([[1, 2, 2], [2, 7, 9]])
    for _ in range(2):
        one.zero_grad()
        net.zero_grad()
        one(ids).square().mean().backward()
        net(ids[rank : rank + 1]).square().mean().backward()
    assert net.module[0].weight.grad.is_sparse
    close(net.module[0].weight.grad.to_dense(), one[0].weight.grad.to_dense(), 1e-14)
    close(net.module[1].weight.grad, one[1].weight.grad, 1e-14)


def check_ranks_must_have_the_same_parameters(rank, world):
    with pytest.raises(RuntimeError, match="DDP expects same model across all ranks"):
        DDP(mlp(2, 2) if rank == 0 else mlp(2, 2, 2))
    with pytest.raises(RuntimeError, match="appears not to match sizes of the same param in process 0"):
        DDP(mlp(2, 2 + rank))
    with pytest.raises(RuntimeError, match="dtype"):
        DDP(mlp(2, 2, dtype=torch.float64 if rank else torch.float32))


def check_errors_of_construction(rank, world):
    net = nn.Linear(2, 2)
    for error, words, call in (
        (RuntimeError, "is not needed when a module doesn't have any parameter", lambda: DDP(nn.ReLU())),
        (ValueError, "device_ids and output_device arguments only work", lambda: DDP(net, device_ids=[0])),
        (ValueError, "device_ids can only be None or contain a single element", lambda: DDP(net, device_ids=[0, 1])),
        (RuntimeError, "uninitialized parameters", lambda: DDP(nn.LazyLinear(2))),
        (
            RuntimeError,
            "Cannot specify both process_group and device_mesh",
            lambda: DDP(net, process_group=dist.group.WORLD, device_mesh=1),
        ),
        (TypeError, "mixed_precision must be a _MixedPrecision", lambda: DDP(net, mixed_precision=1)),
        (TypeError, "process_group must be", lambda: DDP(net, process_group=3)),
    ):
        with pytest.raises(error, match=words):
            call()
    DDP(net, device_ids=[])
    with pytest.warns(FutureWarning, match="check_reduction"):
        DDP(net, check_reduction=True)


def check_states_prefixes_copies_and_pickles(rank, world):
    net = DDP(nn.Linear(2, 1))
    assert list(net.state_dict()) == ["module.weight", "module.bias"] and repr(net).startswith(
        "DistributedDataParallel(\n  (module): Linear"
    )
    again = pickle.loads(pickle.dumps(net))
    assert torch.equal(again.module.weight, net.module.weight)
    again(torch.ones(1, 2) * rank).sum().backward()
    assert again.module.weight.grad.tolist() == [[0.5, 0.5]] and net.module.weight.grad is None
    stream = io.BytesIO()
    torch.save(net.state_dict(), stream)
    stream.seek(0)
    copy.deepcopy(net).load_state_dict(torch.load(stream))
    other = DDP(nn.Linear(2, 1), process_group=dist.new_group(list(range(world))))
    with pytest.raises(RuntimeError, match="DDP Pickling/Unpickling are only supported"):
        pickle.dumps(other)
    ignoring = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    ignoring[1].weight.data.fill_(rank)
    DDP._set_params_and_buffers_to_ignore_for_model(ignoring, ["1.weight"])
    ignoring = DDP(ignoring)
    ignoring(torch.ones(1, 2) * rank).sum().backward()
    assert ignoring.module[1].weight.unique().tolist() == [rank] and len(ignoring.reducer.parameters) == 3


# -- hooks ----------------------------------------------------------------------------------------------------------------
def check_communication_hooks(rank, world):
    from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, default_hooks, powerSGD_hook, register_ddp_comm_hook

    def train(register, steps=6):
        torch.manual_seed(3)
        net = DDP(mlp(16, 32, 32, 1, dtype=torch.float32), bucket_cap_mb=0.001)
        register(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(steps):
            x = torch.randn(8, 16)[rank * 4 : rank * 4 + 4]
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        theirs = [torch.empty_like(net.module[0].weight) for _ in range(world)]
        dist.all_gather(theirs, net.module[0].weight.detach())
        assert torch.equal(theirs[0], theirs[1])
        return net.module[0].weight.detach().clone()

    expected = train(lambda net: None)
    kinds = DDPCommHookType
    for kind, tolerance in (
        (kinds.ALLREDUCE, 1e-6), (kinds.FP16_COMPRESS, 2e-3), (kinds.BF16_COMPRESS, 2e-2), (kinds.QUANTIZE_PER_TENSOR, 2e-2),
        (kinds.QUANTIZE_PER_CHANNEL, 2e-2),
    ):  # fmt: skip
        close(train(lambda net, kind=kind: register_ddp_comm_hook(kind, net)), expected, tolerance)
    for built_in in dist.BuiltinCommHookType:
        close(train(lambda net, kind=built_in: net._register_builtin_comm_hook(kind)), expected, 2e-3)
    for hook in (
        powerSGD_hook.powerSGD_hook,
        powerSGD_hook.batched_powerSGD_hook,
        default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook),
    ):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=16, start_powerSGD_iter=2, min_compression_rate=0.1)
        close(train(lambda net, hook=hook, state=state: net.register_comm_hook(state, hook)), expected, 0.05)
        assert state.iter == 6 and state.compression_stats()[1] > 0
        again = pickle.loads(pickle.dumps(state))
        assert again.iter == 6 and again.process_group is dist.group.WORLD


def check_power_sgd_is_exact_for_matrices_of_its_rank(rank, world):
    from flambeau.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    net = DDP(nn.Linear(20, 10, bias=False).double())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, batch_tensors_with_same_shape=True)
    net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    x = torch.randn(1, 20, dtype=torch.float64) * (rank + 1)  # gradients of rank 1
    for _ in range(4):
        net.zero_grad()
        net(x).sum().backward()
    close(net.module.weight.grad, (x / (rank + 1) * 1.5).expand(10, 20), 1e-12)


# Losses of rank 0 of two in PyTorch, by the columns of the factors.
_POWER_SGD = {
    1: [0.83443, 0.81073, 0.78852, 0.77677, 0.76146, 0.74995, 0.74192, 0.72672],
    2: [0.83443, 0.81073, 0.78852, 0.77572, 0.75814, 0.74083, 0.7248, 0.70691],
}


def check_power_sgd_begins_with_pytorchs_random_factors(rank, world):
    from flambeau.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    if world != 2:
        return
    for columns, expected in _POWER_SGD.items():
        torch.manual_seed(0)
        net = DDP(nn.Sequential(nn.Linear(12, 10), nn.Tanh(), nn.Linear(10, 8)))
        net.register_comm_hook(power.PowerSGDState(None, columns, start_powerSGD_iter=2), power.powerSGD_hook)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(5 + rank)
        x, y = torch.randn(6, 12), torch.randn(6, 8)
        losses = []
        for _ in expected:
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if not rank:
            assert losses == pytest.approx(expected, abs=1e-4)


def check_hooks_of_programs(rank, world):
    seen = []

    def hook(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        seen.append((bucket.index(), bucket.is_last(), [g.shape for g in bucket.gradients()], len(bucket.parameters())))
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: [done.value()[0] / state["size"]])

    net = DDP(nn.Linear(2, 1))
    net.register_comm_hook({"size": world}, hook)
    net(torch.ones(1, 2) * (rank + 1)).sum().backward()
    assert net.module.weight.grad.tolist() == [[1.5, 1.5]] and seen[0][:2] == (0, True) and seen[0][3] == 2
    with pytest.raises(RuntimeError, match="can only be called once"):
        net.register_comm_hook(None, hook)
    with pytest.raises(TypeError, match="must be callable"):
        DDP(nn.Linear(2, 1)).register_comm_hook(None, 3)

    def wrong(state, bucket: int):
        return None

    with pytest.raises(ValueError, match="bucket annotation should be dist.GradBucket"):
        DDP(nn.Linear(2, 1)).register_comm_hook(None, wrong)
    for result in (None, torch.ones(3)):
        net = DDP(nn.Linear(2, 1))
        net.register_comm_hook(result, lambda state, bucket: state)
        with pytest.raises(RuntimeError, match="expected a torch.futures.Future"):
            net(torch.ones(1, 2)).sum().backward()


def check_a_deferred_exchange_that_fails_does_so_for_all_who_wait(rank, world):
    from flambeau.distributed.algorithms.ddp_comm_hooks._deferred import Deferred

    def fail():
        raise ArithmeticError("lost")

    future = Deferred(fail)
    for waits in (future.wait, future.wait, future.then(lambda done: done.value()).wait):
        with pytest.raises(ArithmeticError, match="lost"):
            waits()


def check_a_hook_that_waits_in_a_callback(rank, world):
    def hook(state, bucket):
        def again(done):
            twice = dist.all_reduce(done.value()[0], async_op=True).get_future()
            return twice.then(lambda ended: ended.value()[0]).wait() / world**2

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(again)

    net = DDP(nn.Linear(2, 1))
    net.register_comm_hook(None, hook)
    for _ in range(2):
        net.zero_grad()
        net(torch.ones(1, 2) * (rank + 1)).sum().backward()
        assert net.module.weight.grad.tolist() == [[1.5, 1.5]]


def check_a_whole_compiled_step(rank, world):
    one = mlp(4, 8, 1, dtype=torch.float32)
    net = DDP(copy.deepcopy(one))
    a, b = (torch.optim.SGD(model.parameters(), lr=0.1) for model in (one, net))

    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(lambda x: step(net, b, x))
    for _ in range(4):
        whole, mine = parts(rank, world)
        step(one, a, whole.float())
        compiled(mine.float())
        for p, q in zip(one.parameters(), net.parameters()):
            close(q, p, 1e-6)


# -- uneven inputs --------------------------------------------------------------------------------------------------------
def check_join(rank, world):
    for options in ({}, {"find_unused_parameters": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = DDP(nn.Linear(1, 1, bias=False), bucket_cap_mb=0.00001, **options)
        seen = []
        with net.join():
            for _ in range(2 + 2 * rank):
                net.zero_grad()
                net(torch.ones(1, 1) * (rank + 1)).sum().backward()
                seen.append(net.module.weight.grad.item())
        assert seen == [1.5, 1.5, 1.0, 1.0][: len(seen)]
    net = DDP(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)))
    with net.join(divide_by_initial_world_size=False):
        for step in range(1 + 3 * rank):
            if step == 2:
                with net.no_sync():
                    net(torch.randn(3, 1)).sum().backward()
            net(torch.randn(3, 1)).sum().backward()
    assert net.module[1].num_batches_tracked.item() == 5
    net = DDP(nn.Linear(1, 1, bias=False))
    seen = []
    said = "Detected at least one rank that exhausted inputs" if rank else "Rank 0 exhausted all inputs"
    with pytest.raises(RuntimeError, match=said), net.join(throw_on_early_termination=True):
        for _ in range(2 + rank):
            net(torch.ones(1, 1)).sum().backward()
            seen.append(1)
    assert len(seen) == 2


def check_join_of_a_module_and_an_optimizer(rank, world):
    net = DDP(nn.Linear(4, 4).double())
    optimizer = dist.optim.ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
    with dist.algorithms.join.Join([net, optimizer]):
        for _ in range(1 + rank):
            optimizer.zero_grad()
            net(torch.randn(2, 4, dtype=torch.float64)).sum().backward()
            optimizer.step()
    theirs = [torch.empty_like(net.module.weight) for _ in range(world)]
    dist.all_gather(theirs, net.module.weight.detach())
    assert torch.equal(theirs[0], theirs[1])


def check_join_of_an_optimizer_alone(rank, world):
    model = nn.Linear(4, 4)
    optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    before = {param: param.detach().clone() for param in model.parameters()}
    with dist.algorithms.join.Join([optimizer]):
        for _ in range(1 + rank):
            optimizer.zero_grad()
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    for param, start in before.items():  # a rank's part moved as often as that rank stepped, those without inputs by their last gradient
        close(start - param, torch.full_like(param, 0.1 * world), 1e-6)


# -- optimizers -----------------------------------------------------------------------------------------------------------
def check_zero_redundancy(rank, world):
    for as_view in (False, True):
        one = mlp(4, 8, 8, 1)
        net = DDP(copy.deepcopy(one))
        a = torch.optim.AdamW(one.parameters(), lr=0.01)
        b = dist.optim.ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, parameters_as_bucket_view=as_view, lr=0.01)
        schedules = [torch.optim.lr_scheduler.StepLR(each, 2) for each in (a, b)]
        for _ in range(4):
            whole, mine = parts(rank, world)
            for optimizer, model, x in ((a, one, whole), (b, net, mine)):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
            for schedule in schedules:
                schedule.step()
        for p, q in zip(one.parameters(), net.parameters()):
            close(q, p, 1e-12)
        assert sum(len(state) > 0 for state in b.optim.state.values()) < len(list(one.parameters()))
        with pytest.raises(RuntimeError, match="has not been consolidated"):
            b.state_dict()
        b.consolidate_state_dict(to=0)
        holder = [b.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(holder)
        saved, expected = holder[0], a.state_dict()
        assert saved["state"].keys() == expected["state"].keys() and saved["param_groups"][0]["lr"] == expected["param_groups"][0]["lr"]
        for key, state in expected["state"].items():
            close(saved["state"][key]["exp_avg"], state["exp_avg"], 1e-12)
        c = dist.optim.ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=0.5)
        c.load_state_dict(saved)
        assert c.param_groups[0]["lr"] == b.param_groups[0]["lr"]
        whole, mine = parts(rank, world)
        for optimizer, model, x in ((a, one, whole), (c, net, mine)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        for p, q in zip(one.parameters(), net.parameters()):
            close(q, p, 1e-12)
    extra = nn.Parameter(torch.ones(3, dtype=torch.float64))
    c.add_param_group({"params": [extra], "lr": 1.0})
    c.zero_grad()
    extra.grad = torch.ones(3, dtype=torch.float64)
    c.step()
    assert extra[0].item() < 0.1


def check_averages_of_models(rank, world):
    from flambeau.distributed.algorithms.model_averaging import averagers, hierarchical_model_averager, utils

    net = nn.Linear(2, 1, bias=False)
    net.weight.data.fill_(rank)
    net.weight.grad = torch.zeros(1, 2)
    utils.average_parameters(net.parameters())
    assert net.weight.tolist() == [[0.5, 0.5]]
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=1)
    optimizer = dist.optim.PostLocalSGDOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), averager)
    means = []
    for _ in range(4):
        net.weight.grad.fill_(rank)
        optimizer.step()
        means.append(net.weight[0, 0].item())
    assert means == ([0.5, -0.5, -0.5, -1.5] if rank == 0 else [-0.5, -0.5, -1.5, -1.5])
    assert optimizer.state_dict()["step"] == 4
    hierarchical_model_averager.HierarchicalModelAverager({1: world}, process_group=None).average_parameters(net.parameters())
    with pytest.raises(ValueError, match="must be equal to the size"):
        hierarchical_model_averager.HierarchicalModelAverager({1: world + 1})


def check_clipping_sees_averages(rank, world):
    one = mlp(4, 3, 1)
    net = DDP(copy.deepcopy(one))
    whole, mine = parts(rank, world)
    one(whole).square().mean().backward()
    net(mine).square().mean().backward()
    norms = [float(nn.utils.clip_grad_norm_(model.parameters(), 0.01)) for model in (one, net)]
    assert abs(norms[0] - norms[1]) < 1e-14
    for p, q in zip(one.parameters(), net.parameters()):
        close(q.grad, p.grad, 1e-14)


def check_compiled_and_autocast_modules(rank, world):
    one = mlp(4, 8, 1, dtype=torch.float32)
    for wrap in (lambda net: DDP(torch.compile(net)), lambda net: torch.compile(DDP(net))):
        net = wrap(copy.deepcopy(one))
        for _ in range(4):
            whole, mine = parts(rank, world)
            one.zero_grad()
            net.zero_grad()
            one(whole.float()).square().mean().backward()
            net(mine.float()).square().mean().backward()
            for p, q in zip(one.parameters(), net.parameters()):
                close(q.grad, p.grad, 1e-6)
    net = DDP(copy.deepcopy(one))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(mine.float()).float().square().mean()
    one.zero_grad()
    loss.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = one(whole.float()).float().square().mean()
    loss.backward()
    for p, q in zip(one.parameters(), net.parameters()):
        close(q.grad, p.grad, 3e-2)


# -- batch norm -----------------------------------------------------------------------------------------------------------
def check_synchronised_batch_norm(rank, world):
    def network():
        torch.manual_seed(5)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2, affine=False)).double()

    for cuts in ([0, 5, 12], [0, 0, 12], [0, 12, 12]):
        one = network()
        net = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(network()))
        assert isinstance(net.module[1], nn.SyncBatchNorm)
        for _ in range(2):
            x = torch.randn(12, 3, 8, 8, dtype=torch.float64, requires_grad=True)
            mine = x.detach()[cuts[rank] : cuts[rank + 1]].requires_grad_()
            one.zero_grad()
            net.zero_grad()
            one(x).pow(3).sum().backward()
            (net(mine).pow(3).sum() * world).backward()
            if len(mine):
                close(mine.grad / world, x.grad[cuts[rank] : cuts[rank + 1]], 1e-14)
            close(*(torch.cat([p.grad.reshape(-1) for p in model.parameters()]) for model in (net, one)), 1e-14)
        for p, q in zip(one.buffers(), net.module.buffers()):
            close(q, p, 1e-14)
        close(net.module.eval()(x), one.eval()(x), 1e-14)
    half = nn.SyncBatchNorm(3, momentum=None)
    assert half(torch.randn(4, 3, 5).bfloat16()).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="at least 2D"):
        half(torch.randn(3))


# -- libraries of others --------------------------------------------------------------------------------------------------
def check_horovod(rank, world):
    import flambeau.horovod as hvd

    hvd.init()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_size()) == (rank, world, rank, world, 1)
    x = torch.tensor([1.0, 2.0]) * (rank + 1)
    assert hvd.allreduce(x, name="x").tolist() == [1.5, 3.0] and hvd.allreduce(x, op=hvd.Sum).tolist() == [3.0, 6.0]
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(x, average=False).tolist() == [3.0, 6.0]
    assert hvd.allgather(torch.full((rank + 1, 2), rank)).tolist() == [[0, 0], [1, 1], [1, 1]]
    assert hvd.broadcast(x, root_rank=1).tolist() == [2.0, 4.0] and x.tolist()[0] == rank + 1
    assert hvd.broadcast_object({"rank": rank}, root_rank=1) == {"rank": 1}
    assert hvd.allgather_object(rank) == [0, 1]
    assert hvd.alltoall(torch.tensor([rank * 10, rank * 10 + 1])).tolist() == [rank, 10 + rank]
    assert hvd.reducescatter(torch.arange(2.0)).tolist() == [float(rank)]
    for function in (hvd.alltoall, hvd.reducescatter):
        with pytest.raises(NotImplementedError, match="gradients are not supported"):
            function(torch.ones(world, requires_grad=True))
    handle = hvd.allreduce_async_(x)
    assert hvd.synchronize(handle) is not None and x.tolist() == [1.5, 3.0]
    y = torch.ones(2, requires_grad=True)
    (hvd.allreduce(y * (rank + 1), op=hvd.Sum) * (rank + 1)).sum().backward()
    assert y.grad.tolist() == [3.0 * (rank + 1)] * 2
    for compression, passes, tolerance in (
        (hvd.Compression.none, 1, 1e-7),
        (hvd.Compression.fp16, 1, 1e-3),
        (hvd.Compression.none, 2, 1e-7),
    ):
        torch.manual_seed(rank)
        net = mlp(4, 3, 1, dtype=torch.float32)
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
        one = copy.deepcopy(net)
        inner = torch.optim.Adam(net.parameters(), lr=0.01)
        optimizer = hvd.DistributedOptimizer(inner, net.named_parameters(), compression=compression, backward_passes_per_step=passes)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert isinstance(optimizer, torch.optim.Adam)
        alone = torch.optim.Adam(one.parameters(), lr=0.01)
        torch.manual_seed(1)
        for _ in range(3):
            optimizer.zero_grad()
            alone.zero_grad()
            for _ in range(passes):
                whole, mine = parts(rank, world)
                one(whole.float()).square().mean().backward()
                net(mine.float()).square().mean().backward()
            optimizer.synchronize()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            nn.utils.clip_grad_norm_(one.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
            alone.step()
        for p, q in zip(one.parameters(), net.parameters()):
            close(q, p, tolerance)
    net(mine.float()).sum().backward()
    with pytest.raises(AssertionError, match=r"optimizer.zero_grad\(\) was called after loss.backward"):
        net(mine.float()).sum().backward()
        optimizer.zero_grad()
    optimizer.synchronize()


def check_horovods_adasum(rank, world):
    import flambeau.horovod as hvd
    from flambeau.facades.horovod import adasum

    hvd.init()
    axes, same = torch.eye(world, dtype=torch.float64)[rank], torch.arange(1.0, 4.0)
    close(hvd.allreduce(axes, op=hvd.Adasum), torch.ones(world), 1e-12)  # what lies across is added
    close(hvd.allreduce(same, op=hvd.Adasum, postscale_factor=2.0), 2 * same, 1e-6)  # what agrees is averaged
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0])
    close(adasum.combined([a, b]), (1 - 1 / 10) * a + (1 - 1 / 20) * b, 1e-6)
    torch.manual_seed(rank)
    given, every = torch.randn(3), [torch.zeros(3) for _ in range(world)]
    dist.all_gather(every, given)
    close(hvd.allreduce(given, op=hvd.Adasum), adasum.combined(every), 1e-6)
    with pytest.raises(ValueError, match="floating point"):
        hvd.allreduce(torch.ones(2, dtype=torch.int64), op=hvd.Adasum)
    torch.manual_seed(1)
    model = nn.Linear(2, 1)
    start = [param.detach().clone() for param in model.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters(), op=hvd.Adasum)
    model(torch.ones(1, 2) * (rank + 1)).sum().backward()
    optimizer.step()
    close(model.bias, start[1] - 0.5, 1e-6)
    steps = [torch.full((1, 2), -0.5 * (i + 1)) for i in range(world)]
    close(model.weight, start[0] + adasum.combined(steps), 1e-6)
    with pytest.raises(AssertionError, match="Skipping synchronization"):
        optimizer.skip_synchronize()

    def again():
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    optimizer.zero_grad()
    before = model.bias.detach().clone()
    optimizer.step(again)  # gradients come in the step only
    close(model.bias, before - 0.5, 1e-6)
    first, second = (nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=0.5), op=hvd.Adasum)
    (second if rank else first).sum().backward()
    optimizer.step()  # one rank has a gradient of the first, the others of the second
    assert first.tolist() == second.tolist() == [0.5, 0.5]


def check_apex(rank, world):
    from flambeau.apex import parallel

    for options in ({}, {"delay_allreduce": True}, {"message_size": 1}, {"allreduce_always_fp32": True, "gradient_predivide_factor": 2.0}):
        one = mlp(4, 3, 1, dtype=torch.float32)
        net = parallel.DistributedDataParallel(copy.deepcopy(one), **options)
        assert next(iter(net.state_dict())) == "module.0.weight"
        for _ in range(2):
            whole, mine = parts(rank, world)
            one.zero_grad()
            net.zero_grad()
            one(whole.float()).square().mean().backward()
            net(mine.float()).square().mean().backward()
        for p, q in zip(one.parameters(), net.parameters()):
            close(q.grad, p.grad, 1e-6)
    net.disable_allreduce()
    net.zero_grad()
    net(mine.float()).square().mean().backward()
    parallel.Reducer(net.module).reduce()
    one.zero_grad()
    one(whole.float()).square().mean().backward()
    close(net.module[0].weight.grad, one[0].weight.grad, 1e-6)
    net.enable_allreduce()
    broken = net.module[0].weight.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # gradients of the last layer are there already
        net(mine.float()).square().mean().backward()
    broken.remove()
    for model, x in ((net, mine), (one, whole)):
        model.zero_grad()
        model(x.float()).square().mean().backward()
    for p, q in zip(one.parameters(), net.parameters()):
        close(q.grad, p.grad, 1e-6)
    converted = parallel.convert_syncbn_model(nn.Sequential(nn.BatchNorm1d(2)))
    assert isinstance(converted[0], parallel.SyncBatchNorm)
    optimizer = parallel.LARC(torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1))
    optimizer.step()
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def check_distributed_sampler(rank, world):
    from flambeau.utils.data import DataLoader, TensorDataset
    from flambeau.utils.data.distributed import DistributedSampler

    dataset = TensorDataset(torch.arange(7))
    sampler = DistributedSampler(dataset)
    sampler.set_epoch(2)
    mine = [value for (batch,) in DataLoader(dataset, batch_size=2, sampler=sampler) for value in batch.tolist()]
    theirs = [None] * world
    dist.all_gather_object(theirs, mine)
    assert len(mine) == 4 and sorted({value for each in theirs for value in each}) == list(range(7))
