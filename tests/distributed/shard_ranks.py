"""What tensors, modules and checkpoints that are divided among processes do in two processes or more; ``test_sharding.py`` runs it."""

from __future__ import annotations

import itertools
import math
import os
from functools import cache

import pytest
from distributed import shard_models as models
from distributed.shard_models import F, assert_close, loss_of, train
from distributed.together import close

import flambeau as torch
from flambeau import nn
from flambeau.distributed import checkpoint, fsdp
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from flambeau.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files_on_every_rank
from flambeau.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy, StateDictType, fully_shard
from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy
from flambeau.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    pipe_split,
    pipeline,
)
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

dist = torch.distributed
PLACES = (Replicate(), Shard(0), Shard(1))


@cache
def row(world):
    return init_device_mesh("cpu", (world,), mesh_dim_names=("row",))


@cache
def alone(kind, steps=20, clips=False):
    """Losses of one process with whole batches."""
    clip = (lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1)) if clips else None
    return train(kind(), kind, steps=steps, clip=clip)[0]


def spread(tensor, mesh, place):
    return distribute_tensor(tensor.clone().requires_grad_(tensor.is_floating_point()), mesh, [place])


# -- tensors ---------------------------------------------------------------------------------------------------------------------------
def check_every_placement_becomes_every_other(rank, world):
    mesh = row(world)
    x = torch.arange(35.0).view(5, 7)
    for have, want in itertools.product(PLACES, PLACES):
        moved = spread(x, mesh, have).redistribute(placements=[want])
        assert moved.placements == (want,)
        assert torch.equal(moved.full_tensor(), x)
    for want in PLACES:
        terms = DTensor.from_local(x * (rank + 1), mesh, [Partial()])
        close(terms.redistribute(placements=[want]).full_tensor(), x * (world * (world + 1) // 2), 1e-6)
    with pytest.raises(RuntimeError, match="redistributing to Partial"):
        spread(x, mesh, Shard(0)).redistribute(placements=[Partial()])


def check_two_dimensions_of_a_mesh_divide_one_dimension(rank, world):
    mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("a", "b"))
    x = torch.arange(35.0).view(5, 7)
    for have, want in itertools.product(itertools.product(PLACES, PLACES), itertools.product(PLACES, PLACES)):
        assert torch.equal(distribute_tensor(x, mesh, have).redistribute(placements=want).full_tensor(), x)


def _compared(function, tensors, mesh, places):
    """A function of spread tensors gives what it gives of whole ones, and so do its gradients."""
    spread_ones = [spread(tensor, mesh, place) for tensor, place in zip(tensors, places, strict=True)]
    whole = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    result, expected = function(*spread_ones), function(*whole)
    close(result.full_tensor(), expected, 1e-5)
    result.sum().backward() if result.dim() else result.backward()
    expected.sum().backward() if expected.dim() else expected.backward()
    for have, want in zip(spread_ones, whole, strict=True):
        if want.grad is not None:
            close(have.grad.full_tensor(), want.grad, 1e-5)


def check_operations_on_parts_are_those_on_the_whole(rank, world):
    mesh = row(world)
    x, w, b = torch.randn(5, 6), torch.randn(4, 6), torch.randn(4)
    target = torch.tensor([0, 3, -100, 1, 2])
    functions = (
        (lambda x, w: F.softmax(F.gelu(F.linear(x, w)) * 2 + x.mean(), -1).view(5, 2, 2).transpose(0, 1).reshape(10, 2) ** 2, (x, w)),
        (
            lambda x, w: F.layer_norm(x.sin() @ w.t() / 3 - x[:, :4], (4,)).amax(1) + x.sum(1).square() + x.unsqueeze(0).squeeze(0).mean(1),
            (x, w),
        ),
        (lambda x, w: torch.cat([x, w]).chunk(3, 0)[1].flatten() * torch.stack([x.sum(), x.norm(), w.max()]).sum(), (x, w)),
    )
    for function, tensors in functions:
        for places in itertools.product(PLACES, PLACES):
            _compared(function, tensors, mesh, places)
    for place in PLACES:
        _compared(lambda x, t: F.cross_entropy(x, t), (x, target), mesh, (place, Replicate()))
        _compared(lambda w, i: F.embedding(i, w).tanh(), (x, torch.tensor([[0, 4, 2], [1, 1, 3]])), mesh, (place, Replicate()))
        _compared(lambda x, b: F.linear(x, x[:4], b).relu().sum(), (x, b), mesh, (place, Replicate()))
        for reduction, rows in itertools.product(("mean", "sum"), (4, 5)):
            y = torch.rand(rows, 6)
            for name in ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"):
                loss = lambda x, y: getattr(F, name)(x.sigmoid(), y.detach(), reduction=reduction)  # noqa: B023, E731
                _compared(loss, (x[:rows], y), mesh, (place, place))
        for shifts, dims in ((1, 0), (2, 1), ((1, 2), (0, 1))):
            _compared(lambda x: x.roll(shifts, dims) * 2, (x,), mesh, (place,))  # noqa: B023
        # One row, of which other processes have none, and what is repeated over the rows of another.
        _compared(lambda x, y: (x * x + 1) * y, (x[:1], x), mesh, (place, Shard(0)))
        _compared(lambda x: (x - 0.5).tanh() @ torch.ones_like(x).t(), (x[:1],), mesh, (place,))


def check_terms_are_not_rounded_one_by_one(rank, world):
    x = torch.arange(12.0).view(3, 4) * 0.3
    whole = x * (world * (world + 1) // 2)
    terms = DTensor.from_local(x * (rank + 1), row(world), [Partial()])
    assert (terms / 2).placements == (Partial(),)
    close((terms / 2).full_tensor(), whole / 2, 1e-6)
    close(torch.div(terms, 2, rounding_mode="floor").full_tensor(), torch.div(whole, 2, rounding_mode="floor"), 0)
    close(terms.to(torch.int64).full_tensor(), whole.to(torch.int64), 0)


def check_outputs_lie_as_they_are_wanted(rank, world):
    x = torch.arange(10.0).view(5, 2)
    for is_local in (True, False):
        style = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0), use_local_output=is_local)
        result = parallelize_module(nn.Identity(), row(world), style)(x)
        own = result if is_local else result.to_local()
        assert isinstance(result, DTensor) != is_local
        size, begin = Shard.local_shard_size_and_offset(5, world, rank)
        assert torch.equal(own, x[begin : begin + size])

    class Two(nn.Module):
        def forward(self, x):
            return x, 3

    both = PrepareModuleOutput(output_layouts=(Replicate(), None), desired_output_layouts=(Shard(1), None), use_local_output=False)
    result, three = parallelize_module(Two(), row(world), both)(x)
    assert three == 3 and result.placements == (Shard(1),) and torch.equal(result.full_tensor(), x)
    with pytest.raises(ValueError, match="same length"):
        parallelize_module(nn.Identity(), row(world), both)(x)


def check_dropout_of_parts(rank, world):
    x = torch.ones(64, 32)
    for place in PLACES:
        torch.manual_seed(3)
        spread_one = spread(x, row(world), place)
        result = F.dropout(spread_one, 0.25)
        whole = result.full_tensor().detach()
        assert result.placements == (place,)
        assert set(whole.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
        assert 0.2 < float((whole == 0).float().mean()) < 0.3
        result.sum().backward()
        assert torch.equal(spread_one.grad.full_tensor(), whole)
        if isinstance(place, Shard):  # parts do not repeat each other
            first, second = whole.chunk(world, place.dim)[:2]
            assert not torch.equal(first, second)
        assert torch.equal(torch.rand(2), torch.rand(2)) is False and len({*_everywhere(torch.rand(()).item())}) == 1


def _everywhere(value):
    """What all ranks have for it."""
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def check_what_has_no_rule_says_so(rank, world):
    square = distribute_tensor(torch.eye(4), row(world), [Shard(0)])
    with pytest.raises(NotImplementedError, match="det"):
        torch.linalg.det(square)
    with pytest.raises(RuntimeError, match="mixed torch.Tensor and DTensor"):
        square + torch.ones(4, 4)


def check_optimizers_and_clipping_of_spread_parameters(rank, world):
    x = torch.randn(5, 6)
    for place, make in itertools.product(PLACES, (torch.optim.SGD, torch.optim.AdamW)):
        whole, parts = nn.Parameter(x.clone()), nn.Parameter(distribute_tensor(x, row(world), [place]))
        norms = []
        for param in (whole, parts):
            optimizer = make([param], lr=0.1, weight_decay=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                (param.sin() * param).sum().backward()
                norm = nn.utils.clip_grad_norm_([param], 1.0)
                optimizer.step()
            norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        assert isinstance(parts, nn.Parameter) and parts.placements == (place,)
        close(parts.full_tensor(), whole, 1e-5)
        close(norms[1], norms[0], 1e-5)


def check_parts_in_and_out_pass_gradients(rank, world):
    mesh = row(world)
    local = torch.full((2, 3), float(rank + 1), requires_grad=True)
    DTensor.from_local(local, mesh, [Shard(0)]).redistribute(placements=[Replicate()]).to_local().sum().backward()
    assert torch.equal(local.grad, torch.ones(2, 3))
    local = torch.ones(2, requires_grad=True)
    (DTensor.from_local(local, mesh, [Partial()]).full_tensor() * torch.tensor([1.0, 2.0])).sum().backward()
    assert local.grad.tolist() == [1.0, 2.0]
    assert repr(DTensor.from_local(torch.ones(1), mesh, [Shard(0)])).startswith("DTensor(local_tensor=tensor([1.]), device_mesh=")


# -- tensor parallelism ----------------------------------------------------------------------------------------------------------------
def _plan(divides_sequence):
    options = {"output_layouts": Shard(1), "use_local_output": False} if divides_sequence else {}
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), **options),
        "blocks.*.attention.[qkv]": ColwiseParallel(),
        "blocks.*.attention.o": RowwiseParallel(**options),
        "blocks.*.w1": ColwiseParallel(input_layouts=Shard(1) if divides_sequence else None),
        "blocks.*.w2": RowwiseParallel(**options),
    }
    if divides_sequence:
        whole = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate(), use_local_output=True)
        norms = dict.fromkeys(("blocks.*.n1", "blocks.*.n2", "norm"), SequenceParallel())
        plan |= {**norms, "blocks.*.attention": whole, "scores": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}
    return plan


def check_tensor_parallelism_changes_nothing(rank, world):
    for divides_sequence in (False, True):
        model = parallelize_module(models.gpt(), row(world), _plan(divides_sequence))
        assert_close(train(model, models.gpt, steps=6)[0], alone(models.gpt)[:6])


def check_the_loss_of_scores_that_are_divided_by_classes(rank, world):
    mesh = row(world)
    x, target = torch.randn(5, 7), torch.tensor([0, 6, -100, 3, 5])
    for reduction in ("mean", "sum", "none"):
        scores, whole = spread(x, mesh, Shard(1)), x.clone().requires_grad_()
        with loss_parallel():
            loss = F.cross_entropy(scores, distribute_tensor(target, mesh), reduction=reduction)
            loss.sum().backward()
        expected = F.cross_entropy(whole, target, reduction=reduction)
        expected.sum().backward()
        close(loss.full_tensor(), expected, 1e-5)
        assert scores.grad.placements == (Shard(1),)
        close(scores.grad.full_tensor(), whole.grad, 1e-5)


# -- FSDP ------------------------------------------------------------------------------------------------------------------------------
def _fully_sharded(kind, **options):
    model = kind()
    for part in model.blocks if kind is models.gpt else [layer for layer in model if isinstance(layer, nn.Linear)]:
        fully_shard(part, **options)
    return fully_shard(model, **options)


def check_fully_shard_trains_as_one_process(rank, world):
    for kind in (models.mlp, models.cnn, models.gpt):
        assert_close(train(_fully_sharded(kind), kind, rank, world)[0], alone(kind))
    for reshards in (False, True):
        model = _fully_sharded(models.mlp, reshard_after_forward=reshards)
        clip = lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # noqa: E731
        assert_close(train(model, models.mlp, rank, world, clip=clip)[0], alone(models.mlp, clips=True))
        for name, param in model.named_parameters():
            assert isinstance(param, DTensor) and isinstance(param, nn.Parameter) and isinstance(param.grad, DTensor), name
            rows = param._local_tensor.shape[0]
            assert rows == Shard.local_shard_size_and_offset(param.shape[0], world, rank)[0]
    assert type(model).__name__ == "FSDPSequential" and isinstance(model, fsdp.FSDPModule)


def check_losses_are_those_of_data_parallelism(rank, world):
    for kind in (models.mlp, models.gpt):
        expected = train(nn.parallel.DistributedDataParallel(kind()), kind, rank, world)[0]
        for model in (_fully_sharded(kind), FSDP(kind()), FSDP(kind(), use_orig_params=True)):
            assert_close(train(model, kind, rank, world)[0], expected, 1e-6)


def check_a_row_that_only_one_process_has(rank, world):
    for make in (torch.optim.SGD, torch.optim.AdamW):
        torch.manual_seed(0)
        whole, parts = nn.Linear(3, 1), nn.Linear(3, 1)
        parts.load_state_dict(whole.state_dict())
        fully_shard(parts)
        for model in (whole, parts):
            optimizer = make(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 3)).square().sum().backward()
                optimizer.step()
        for param, other in zip(parts.parameters(), whole.parameters(), strict=True):
            close(param.full_tensor(), other, 1e-6)


def check_parameters_that_are_set_free_later(rank, world):
    for make in (fully_shard, lambda model: FSDP(model, use_orig_params=True)):
        model = models.mlp()
        model[0].requires_grad_(False)
        model = make(model)
        x = torch.ones(2, 5)
        model(x).sum().backward()
        first = next(model.parameters())
        assert first.grad is None
        model.requires_grad_(True)
        model(x).sum().backward()
        whole = models.mlp()
        whole(x).sum().backward()
        grad = first.grad.full_tensor() if isinstance(first, DTensor) else _gathered(first.grad, 35)
        close(grad.reshape(-1), whole[0].weight.grad.reshape(-1), 1e-5)


def _gathered(piece, size):
    """All pieces behind each other."""
    pieces = _everywhere(piece.tolist())
    joined = torch.tensor([value for each in pieces for value in each])
    assert len(joined) == size
    return joined


def check_conversions_of_sharded_modules(rank, world):
    model = fully_shard(models.mlp())
    weight = model[0].weight
    model.double()
    assert model[0].weight is weight and isinstance(weight, nn.Parameter)
    model(torch.ones(2, 5).double()).sum().backward()
    assert weight.dtype == weight.to_local().dtype == weight.grad.dtype == weight.grad.to_local().dtype == torch.float64
    mixed = models.mlp()
    mixed[4].double()
    with pytest.raises(AssertionError, match="uniform original parameter dtype"):
        fully_shard(mixed)(torch.ones(2, 5))


def check_parameters_after_an_evaluation(rank, world):
    for strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        model = FSDP(models.mlp(), sharding_strategy=strategy, use_orig_params=True)
        with torch.no_grad():
            model(torch.ones(2, 5))
        assert all(isinstance(param, nn.Parameter) for param in model.parameters())


def check_a_scaler_of_sharded_gradients(rank, world):
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.ones(1))
    weight.grad = None if rank == 0 else torch.tensor([1.0, math.inf])
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
    weight.grad = torch.tensor([2.0, 4.0])
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, 0.0] and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(optimizer)


def check_what_a_wrapper_refuses(rank, world):
    with pytest.raises(ValueError, match="device_id"):
        FSDP(models.mlp(), device_id=1)
    with pytest.raises(NotImplementedError, match="keep_low_precision_grads"):
        FSDP(models.mlp(), mixed_precision=fsdp.MixedPrecision(torch.bfloat16, keep_low_precision_grads=True))
    with pytest.raises(AssertionError, match="already been applied"):
        fully_shard(fully_shard(models.mlp()))


def check_two_dimensions_of_processes(rank, world):
    if world != 4:
        return
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    for model in (
        fully_shard(models.mlp(), mesh=mesh),
        FSDP(models.mlp(), device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD),
    ):
        assert_close(train(model, models.mlp, rank, world, steps=5)[0], alone(models.mlp)[:5])
    model = parallelize_module(models.gpt(), mesh["inner"], _plan(False))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh["outer"])
    assert_close(train(model, models.gpt, mesh.get_local_rank("outer"), 2, steps=1)[0], [2 * alone(models.gpt)[0]])


def check_fully_sharded_gradients_are_collected(rank, world):
    whole, model = models.mlp(), _fully_sharded(models.mlp)
    data = list(models.batches(models.mlp, 3))
    for i, (x, y) in enumerate(data):
        own = slice(rank * 12 // world, (rank + 1) * 12 // world)
        model.set_requires_gradient_sync(i == 2)
        loss_of(model, x[own], y[own]).backward()
        loss_of(whole, x, y).backward()
        if i < 2:
            assert all(param.grad is None for param in model.parameters())
    for param, other in zip(model.parameters(), whole.parameters(), strict=True):
        close(param.grad.full_tensor(), other.grad, 1e-5)


def check_whole_parameters_are_not_kept(rank, world):
    model = fully_shard(models.mlp(), reshard_after_forward=True)
    loss = loss_of(model, torch.randn(2, 5), torch.tensor([0, 1]))
    group = model._get_fsdp_state().group
    assert group.whole is None
    loss.backward()
    assert group.whole is None
    model.unshard()
    assert tuple(model[0].weight.shape) == (7, 5) and not isinstance(model[0].weight, DTensor)
    model.reshard()
    assert isinstance(model[0].weight, DTensor)


def check_mixed_precision(rank, world):
    seen = []
    policy = fsdp.MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    model = fully_shard(models.mlp(), mp_policy=policy)
    model[0].register_forward_hook(lambda module, inputs, output: seen.append((inputs[0].dtype, module.weight.dtype, output.dtype)))
    output = model(torch.randn(2, 5))
    assert seen == [(torch.bfloat16,) * 3] and output.dtype == torch.float32
    output.sum().backward()
    assert all(param.dtype == param.grad.dtype == torch.float32 for param in model.parameters())
    wrapped = FSDP(models.mlp(), mixed_precision=fsdp.MixedPrecision(param_dtype=torch.bfloat16))
    assert wrapped(torch.randn(2, 5)).dtype == torch.bfloat16


def check_wrapped_modules_train_as_one_process(rank, world):
    by_size = lambda **given: size_based_auto_wrap_policy(min_num_params=100, **given)  # noqa: E731
    cases = (
        (models.gpt, {"auto_wrap_policy": ModuleWrapPolicy({models.Block})}),
        (models.cnn, {"use_orig_params": True}),
        (models.mlp, {"auto_wrap_policy": by_size, "sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}),
        (models.mlp, {"sharding_strategy": ShardingStrategy.NO_SHARD, "use_orig_params": True}),
    )
    for kind, options in cases:
        assert_close(train(FSDP(kind(), **options), kind, rank, world)[0], alone(kind))
    clipped = train(FSDP(models.mlp()), models.mlp, rank, world, clip=lambda model: model.clip_grad_norm_(0.1))[0]
    assert_close(clipped, alone(models.mlp, clips=True))


def check_fsdp_modules_are_printed(rank, world):
    model = FSDP(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 2, bias=False)))
    for _ in range(2):
        assert "in_features=4, out_features=2, bias=True" in repr(model) and "bias=False" in repr(model)
        assert model.module[0].weight.shape == (2, 4)
        model(torch.ones(1, 4)).sum().backward()
    with FSDP.summon_full_params(model):
        assert isinstance(model.module[0].weight, torch.nn.Parameter)
    assert not isinstance(model.module[0].weight, torch.Tensor)


def check_wrapped_modules_collect_gradients(rank, world):
    whole, model = models.mlp(), FSDP(models.mlp())
    for i, (x, y) in enumerate(models.batches(models.mlp, 2)):
        own = slice(rank * 12 // world, (rank + 1) * 12 // world)
        if i == 0:
            with model.no_sync():
                loss_of(model, x[own], y[own]).backward()
        else:
            loss_of(model, x[own], y[own]).backward()
        loss_of(whole, x, y).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        assert [name for name, _ in model.named_parameters()] == [name for name, _ in whole.named_parameters()]
        for param, other in zip(model.parameters(), whole.parameters(), strict=True):
            close(param.grad, other.grad, 1e-5)


def check_states_of_wrapped_modules_and_their_optimizers(rank, world):
    policy = ModuleWrapPolicy({models.Block})
    for orig in (False, True):
        make = lambda: FSDP(models.gpt(), auto_wrap_policy=policy, use_orig_params=orig)  # noqa: B023, E731
        model = make()
        _, optimizer = train(model, models.gpt, rank, world, steps=3)
        for kind in StateDictType:
            with FSDP.state_dict_type(model, kind):
                state = model.state_dict()
                if kind is not StateDictType.LOCAL_STATE_DICT:
                    assert set(state) == set(models.gpt().state_dict())
                    optim = FSDP.optim_state_dict(model, optimizer)
                    assert set(optim["state"]) == {name for name, _ in models.gpt().named_parameters()}
            expects_parts = kind is StateDictType.SHARDED_STATE_DICT
            assert expects_parts == all(isinstance(value, DTensor) for value in state.values())
            other = make()
            again = torch.optim.AdamW(other.parameters(), lr=0.01)
            with FSDP.state_dict_type(other, kind):
                assert not any(other.load_state_dict(state))
                again.load_state_dict(FSDP.optim_state_dict_to_load(other, again, optim) if kind is not StateDictType.LOCAL_STATE_DICT
                                      else optimizer.state_dict())  # fmt: skip
            for have, want in zip(again.state.values(), optimizer.state.values(), strict=True):
                assert all(torch.equal(have[name], want[name]) for name in want)
            tokens = torch.arange(6).view(1, 6)
            close(other(tokens), model(tokens), 1e-6)
        config = fsdp.FullStateDictConfig(rank0_only=True)
        with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
            assert (len(model.state_dict()) > 0) == (rank == 0)


def check_activations_are_computed_again(rank, world):
    x, y = next(models.batches(models.mlp, 1))
    own = slice(rank * 12 // world, (rank + 1) * 12 // world)
    whole = models.mlp()
    loss_of(whole, x, y).backward()
    for impl, inside in itertools.product(CheckpointImpl, (True, False)):
        model = models.mlp()
        for i in (0, 2, 4):
            layer = checkpoint_wrapper(model[i], impl) if inside else fully_shard(model[i])
            model[i] = fully_shard(layer) if inside else checkpoint_wrapper(layer, impl)
        fully_shard(model)
        loss_of(model, x[own].clone().requires_grad_(), y[own]).backward()
        for param, other in zip(model.parameters(), whole.parameters(), strict=True):
            close(param.grad.full_tensor(), other.grad, 1e-5)


def check_starting_from_the_first_ranks_values(rank, world):
    torch.manual_seed(rank)
    model = FSDP(nn.Linear(3, 2), sync_module_states=True)
    torch.manual_seed(0)
    close(model.state_dict()["weight"], nn.Linear(3, 2).weight, 1e-9)


def check_modules_that_begin_on_meta(rank, world):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    fully_shard(model)
    model.to_empty(device="cpu")
    for layer in model:
        nn.init.constant_(layer.weight, 0.5)
        nn.init.zeros_(layer.bias)
    assert torch.equal(model(torch.ones(1, 4)), torch.full((1, 2), 6.0))


# -- checkpoints -----------------------------------------------------------------------------------------------------------------------
def _folder(name):
    """A folder that all ranks know, below the one of this start."""
    place = [os.environ.get("SHARD_FOLDER") or __import__("tempfile").mkdtemp()] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(place, src=0)
    return os.path.join(place[0], name)


def check_checkpoints_go_from_any_placement_to_any_other(rank, world):
    mesh, folder = row(world), _folder("placements")
    x = torch.arange(35.0).view(7, 5)
    for have, want in itertools.product(PLACES, PLACES):
        state = {"model": {"weight": spread(x, mesh, have)}, "epoch": 3, "parts": [x[0], {"name": "a"}]}
        checkpoint.save(state, checkpoint_id=folder)
        empty = {"model": {"weight": spread(x * 0, mesh, want)}, "epoch": 0, "parts": [x[0] * 0, {"name": ""}]}
        checkpoint.load(empty, checkpoint_id=folder)
        assert torch.equal(empty["model"]["weight"].full_tensor(), x)
        assert empty["epoch"] == 3 and torch.equal(empty["parts"][0], x[0]) and empty["parts"][1] == {"name": "a"}
    assert {name for name in os.listdir(folder) if not name.endswith(".distcp")} == {".metadata"}


def check_safetensors_of_parts_are_put_together(rank, world):
    mesh = row(world)
    x, y = torch.arange(30.0).view(5, 6), torch.arange(7).bfloat16()
    folder = _folder("parts")
    state = {"x": distribute_tensor(x, mesh, [Shard(1)]), "y": distribute_tensor(y, mesh, [Shard(0)]), "z": torch.tensor(3)}
    writer = checkpoint.HuggingFaceStorageWriter(folder, {"x": 1, "y": 2, "z": 1}, save_distributed=True, enable_consolidation=True)
    checkpoint.save(state, storage_writer=writer)
    for place in (folder, f"{folder}/sharded"):
        empty = {"x": distribute_tensor(torch.zeros(5, 6), mesh, [Shard(0)]), "y": torch.zeros(7).bfloat16(), "z": torch.tensor(0)}
        checkpoint.load(empty, storage_reader=checkpoint.HuggingFaceStorageReader(place))
        assert torch.equal(empty["x"].full_tensor(), x) and torch.equal(empty["y"], y) and empty["z"] == 3
    other = _folder("whole")
    consolidate_safetensors_files_on_every_rank(f"{folder}/sharded", other, {"x": 1, "y": 2, "z": 1})
    for name in ("model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        with open(f"{folder}/{name}", "rb") as one, open(f"{other}/{name}", "rb") as two:
            assert one.read() == two.read()
    assert torch.equal(torch.load(f"{other}/model-00001-of-00002.safetensors")["x"], x)


def check_training_goes_on_from_a_checkpoint(rank, world):
    folder = _folder("training")
    make = {
        "whole": lambda: models.mlp(),
        "rows": lambda: fully_shard(models.mlp()),
        "flat": lambda: FSDP(models.mlp(), use_orig_params=True),
    }
    for saver, loader in (("rows", "flat"), ("flat", "whole"), ("whole", "rows")):
        model = make[saver]()
        _, optimizer = train(model, models.mlp, rank if saver != "whole" else 0, world if saver != "whole" else 1, steps=3)
        state = dict(zip(("model", "optim"), get_state_dict(model, optimizer), strict=True))
        checkpoint.save(state, checkpoint_id=folder)
        other = make[loader]()
        again = torch.optim.AdamW(other.parameters(), lr=0.01)
        state = dict(zip(("model", "optim"), get_state_dict(other, again), strict=True))
        checkpoint.load(state, checkpoint_id=folder)
        set_state_dict(other, again, model_state_dict=state["model"], optim_state_dict=state["optim"])
        full = StateDictOptions(full_state_dict=True)
        for have, want in zip(get_state_dict(other, again, options=full), get_state_dict(model, optimizer, options=full), strict=True):
            assert _flat(have).keys() == _flat(want).keys()
            for name, value in _flat(want).items():
                assert torch.equal(_flat(have)[name], value) if isinstance(value, torch.Tensor) else _flat(have)[name] == value, name


def _flat(state):
    from flambeau.distributed.checkpoint._nested import flatten

    return flatten(state)[0]


def check_a_rank_that_cannot_write_is_an_error_on_all(rank, world):
    class Refusing(checkpoint.FileSystemWriter):
        def write_data(self, plan, planner):
            if rank == world - 1:
                raise OSError("disk full")
            return super().write_data(plan, planner)

    folder = _folder("refused")
    with pytest.raises(checkpoint.CheckpointException, match="disk full") as caught:
        checkpoint.save({"a": torch.ones(2)}, storage_writer=Refusing(folder))
    assert list(caught.value.failures) == [world - 1]
    assert not os.path.exists(os.path.join(folder, ".metadata"))


def check_saving_while_the_program_goes_on(rank, world):
    group, folder = dist.new_group(list(range(world))), _folder("async")
    state = {"weight": spread(torch.ones(5, 2), row(world), Shard(0))}
    future = checkpoint.async_save(state, checkpoint_id=folder, process_group=group)
    with torch.no_grad():
        state["weight"].zero_()
    future.result(timeout=20)
    checkpoint.load(state, checkpoint_id=folder)
    assert torch.equal(state["weight"].full_tensor(), torch.ones(5, 2))


# -- sequences in parts ----------------------------------------------------------------------------------------------------------------
def check_attention_over_divided_sequences(rank, world):
    from flambeau.distributed.tensor.experimental import _attention, context_parallel

    mesh = dist.init_device_mesh("cpu", (world,))
    for is_causal, balanced in ((True, True), (True, False), (False, True)):
        _attention._cp_options.enable_load_balance = balanced
        whole = [torch.randn(2, 2, 8 * world, 4, requires_grad=True) for _ in range(3)]
        expected = F.scaled_dot_product_attention(*whole, is_causal=is_causal)
        expected.square().sum().backward()
        own = [each.detach().clone() for each in whole]
        kept = [each.clone() for each in own]
        with context_parallel(mesh, buffers=[*own, *kept], buffer_seq_dims=[2] * 6, no_restore_buffers=set(own)):
            assert kept[0].shape[2] == 8
            ours = F.scaled_dot_product_attention(*[each.requires_grad_() for each in own], is_causal=is_causal)
            ours.square().sum().backward()
            found = _attention.context_parallel_unshard(mesh, [ours, *(each.grad for each in own)], [2] * 4)
            with pytest.raises(NotImplementedError, match="attn_mask"):
                F.scaled_dot_product_attention(*own, attn_mask=torch.ones(8, 8, dtype=torch.bool))
        for one, other in zip(found, [expected, *(each.grad for each in whole)], strict=True):
            close(one, other, 1e-5)
        assert all(torch.equal(one, other) for one, other in zip(kept, whole, strict=True))
    _attention._cp_options.enable_load_balance = True
    layer, x = nn.MultiheadAttention(4, 2, batch_first=True), torch.randn(1, 4 * world, 4)
    expected = layer(x, x, x, need_weights=False)[0]
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        found = _attention.context_parallel_unshard(mesh, [layer(x, x, x, need_weights=False)[0]], [1])[0]
        with pytest.raises(NotImplementedError, match="need_weights"):
            layer(x, x, x)
    close(found, expected, 1e-5)
    with pytest.raises(ValueError, match="multiple of"), context_parallel(mesh, buffers=[torch.zeros(3)], buffer_seq_dims=[0]):
        pass


def check_plain_tensors_that_count_as_whole(rank, world):
    from flambeau.distributed.tensor.experimental import implicit_replication

    whole, plain = torch.randn(4, 3), torch.randn(3)
    divided = spread(whole, row(world), Shard(0))
    with pytest.raises(RuntimeError, match="mixed"):
        divided * plain
    with implicit_replication():
        close((divided * plain).full_tensor(), whole * plain, 1e-6)
        close(torch.mm(divided, plain.reshape(3, 1)).full_tensor(), whole @ plain.reshape(3, 1), 1e-6)


# -- pipelines -------------------------------------------------------------------------------------------------------------------------
def _layers(count):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(count)]


def check_pipelines_compute_what_the_whole_model_does(rank, world):
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    in_turns = (ScheduleLoopedBFS, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble)
    as_a_v = (ScheduleZBVZeroBubble, ScheduleDualPipeV)
    for schedule in (ScheduleGPipe, Schedule1F1B, *in_turns, *as_a_v):
        each = 1 if schedule in (ScheduleGPipe, Schedule1F1B) else 2
        whole, layers = nn.Sequential(*_layers(each * world)), _layers(each * world)
        expected = whole(x)
        loss = F.mse_loss(expected, y)
        loss.backward()
        own = [rank, 2 * world - 1 - rank] if schedule in as_a_v else list(range(rank, each * world, world))
        stages = [PipelineStage(layers[i], i, each * world, "cpu") for i in own]
        count = 2 * world if schedule is ScheduleDualPipeV else 4
        steps = schedule(stages if each > 1 else stages[0], n_microbatches=count, loss_fn=F.mse_loss)
        losses: list = []
        is_last = own[-1] == each * world - 1
        result = steps.step(*((x,) if rank == 0 else ()), **({"target": y, "losses": losses} if is_last else {}))
        if is_last:
            close(result, expected, 1e-6)
            close(torch.stack(losses).mean(), loss, 1e-6)
        for i in own:
            for param, other in zip(layers[i].parameters(), whole[i].parameters(), strict=True):
                close(param.grad, other.grad, 1e-6)
        result = steps.eval(*((x,) if rank == 0 else ()))
        assert (result is not None) == is_last


class _Skipping(nn.Module):
    """Values of its beginning, and one of its inputs, are used at its end; two layers share their weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(7, 6)
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.norm = nn.LayerNorm(6)
        self.register_buffer("shift", torch.linspace(0, 1, 6))

    def forward(self, tokens, weights, *, scale):
        x = first = self.table(tokens) + self.shift
        for layer in self.layers:
            x = torch.tanh(self.layers[0](layer(x)) + torch.matmul(x, self.layers[1].weight.t()))
        return {"scores": self.norm(x + first) * weights.unsqueeze(-1) * scale, "first": first}


def _of_output(output, target):
    return F.mse_loss(output["scores"], target) + output["first"].mean()


def check_a_model_that_is_split_computes_what_it_did(rank, world):
    tokens, weights, scale, target = torch.randint(0, 7, (8, 3)), torch.rand(8, 3), torch.rand(8, 1, 1), torch.randn(8, 3, 6)
    part = (tokens[:2], weights[:2]), {"scale": scale[:2]}
    whole = _Skipping()
    expected = whole(tokens, weights, scale=scale)
    loss = _of_output(expected, target)
    loss.backward()
    for schedule in (ScheduleGPipe, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble)[: 3 if world == 2 else 1]:
        spec = {"layers.1": SplitPoint.BEGINNING, "layers.2": SplitPoint.BEGINNING, "norm": SplitPoint.BEGINNING}
        spec = spec if schedule is not ScheduleGPipe or world == 4 else {"layers.2": SplitPoint.BEGINNING}
        model = _Skipping()
        pipe = pipeline(model, *part, split_spec=spec)
        assert pipe.num_stages == len(spec) + 1
        close(pipe(*part[0], **part[1])["scores"], expected["scores"][:2], 1e-6)
        own = [rank, 3 - rank] if schedule is ScheduleZBVZeroBubble else list(range(rank, len(spec) + 1, world))
        stages = [pipe.build_stage(index, "cpu") for index in own]
        steps = schedule(stages if schedule is not ScheduleGPipe else stages[0], 4, loss_fn=_of_output)
        is_last = stages[-1].is_last
        losses: list = []
        given = ((tokens, weights), {"scale": scale}) if rank == 0 else ((), {})
        result = steps.step(*given[0], **given[1], **({"target": target, "losses": losses} if is_last else {}))
        if is_last:
            close(result["scores"], expected["scores"], 1e-6)
            close(torch.stack(losses).mean(), loss, 1e-6)
        for name, param in whole.named_parameters():
            held = [dict(stage.submod.named_parameters()).get(name) for stage in stages]
            total = torch.zeros_like(param)
            for each in {id(each): each for each in held if each is not None and each.grad is not None}.values():
                total = total + each.grad
            dist.all_reduce(total)
            close(total, param.grad, 1e-5)


def check_marks_in_forward_split_a_model(rank, world):
    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = _layers(2)

        def forward(self, x):
            x = self.first(x)
            pipe_split()
            return self.second(x)

    model, x = Marked(), torch.randn(2, 6)
    pipe = pipeline(model, (x,))
    assert [name for name, _ in pipe.get_stage_module(1).named_parameters()] == ["second.0.weight", "second.0.bias"]
    assert pipe.num_stages == 2
    close(pipe(x), model(x), 1e-7)
    with pytest.raises(ValueError, match="Invalid stage index 2!"):
        pipe.get_stage_module(2)
    with pytest.raises(AttributeError, match="nothing"):
        pipeline(model, (x,), split_spec={"nothing": SplitPoint.END})
    with pytest.raises(RuntimeError, match="cannot capture your model"):
        pipeline(model, (torch.randn(2, 5),))


def check_a_step_that_breaks_off_leaves_nothing_to_the_next(rank, world):
    group = [dist.new_group([each]) for each in range(world)][rank]
    first, second = _layers(2)
    failing = [True]

    def loss(output, target):
        if failing.pop():
            raise ArithmeticError("lost")
        failing.append(False)
        return F.mse_loss(output, target)

    steps = ScheduleLoopedBFS([PipelineStage(part, i, 2, "cpu", group=group) for i, part in enumerate((first, second))], 2, loss_fn=loss)
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    with pytest.raises(ArithmeticError):
        steps.step(torch.zeros(4, 6), target=y)
    failing.append(False)
    close(steps.step(x, target=y), second(first(x)), 1e-6)
    with pytest.raises(ValueError, match="inputs cannot be divided into 2 parts"):
        steps.step(x[:1], target=y)


def check_binary_cross_entropy_with_a_target_that_requires_grad(rank, world):
    values = [torch.linspace(0.1, 0.6, 4 * world), torch.linspace(0.9, 0.2, 4 * world)]
    plain = [value.clone().requires_grad_() for value in values]
    divided = [spread(value, row(world), Shard(0)) for value in values]
    for pair in (plain, divided):
        F.binary_cross_entropy(*pair).backward()
    for one, part in zip(plain, divided, strict=True):
        close(part.grad.full_tensor(), one.grad, 1e-6)
