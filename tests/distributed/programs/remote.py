"""Programs of the kind of PyTorch's tutorials on remote calls: a parameter server, a recurrent network over two workers, a pipeline of
two workers, a server that updates in batches, data parallel trainers with a remote table.

    python remote.py PORT ANOTHER

prints the losses of each as JSON. Worker 0 drives, workers 1 and 2 hold parts; workers 0 and 1 are the data parallel trainers.
"""

import json
import os
import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn, optim
from torch.distributed.nn import RemoteModule
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef
from torch.nn.parallel import DistributedDataParallel as DDP

LOSSES = {}


def call_method(method, rref, *args, **kwargs):
    return method(rref.local_value(), *args, **kwargs)


def remote_method(method, rref, *args, **kwargs):
    return rpc.rpc_sync(rref.owner(), call_method, args=[method, rref, *args], kwargs=kwargs)


def parameter_rrefs(module):
    return [RRef(parameter) for parameter in module.parameters()]


# -- a parameter server ----------------------------------------------------------------------------
class ParameterServer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 5))

    def forward(self, x):
        return self.model(x)

    def gradients(self, context_id):
        return {k.shape: v.abs().sum() for k, v in dist_autograd.get_gradients(context_id).items()}

    def parameters_as_rrefs(self):
        return parameter_rrefs(self.model)


class Trainer(nn.Module):
    def __init__(self, server):
        super().__init__()
        self.server = server

    def forward(self, x):
        return remote_method(ParameterServer.forward, self.server, x)


def parameter_server():
    server = rpc.remote("worker1", ParameterServer)
    net = Trainer(server)
    optimizer = DistributedOptimizer(optim.SGD, remote_method(ParameterServer.parameters_as_rrefs, server), lr=0.1)
    for _ in range(4):
        x, y = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
        with dist_autograd.context() as context_id:
            loss = nn.functional.cross_entropy(net(x), y)
            dist_autograd.backward(context_id, [loss])
            assert remote_method(ParameterServer.gradients, server, context_id)
            optimizer.step(context_id)
        yield loss.item()


# -- a recurrent network over two workers ----------------------------------------------------------
def filled(module, seed):
    """With weights that do not depend on what else the worker draws meanwhile."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    return module


class Table(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.encoder = filled(nn.Embedding(words, width), 1)

    def forward(self, x):
        return self.encoder(x)


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.decoder = filled(nn.Linear(width, words), 2)

    def forward(self, x):
        return self.decoder(x)


class Recurrent(nn.Module):
    def __init__(self, to, words, width):
        super().__init__()
        self.table = rpc.remote(to, Table, args=(words, width))
        self.rnn = nn.LSTM(width, width, 2)
        self.decoder = rpc.remote(to, Decoder, args=(words, width))

    def forward(self, x, hidden):
        out, hidden = self.rnn(remote_method(Table.forward, self.table, x), hidden)
        return remote_method(Decoder.forward, self.decoder, out), hidden

    def parameter_rrefs(self):
        far = [rpc.rpc_sync(each.owner(), call_method, args=(parameter_rrefs, each)) for each in (self.table, self.decoder)]
        return [*far[0], *parameter_rrefs(self.rnn), *far[1]]


def recurrent():
    model, words = Recurrent("worker2", 11, 6), 11
    optimizer = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=0.5)
    hidden = (torch.zeros(2, 3, 6), torch.zeros(2, 3, 6))
    for _ in range(4):
        with dist_autograd.context() as context_id:
            hidden = tuple(h.detach() for h in hidden)
            output, hidden = model(torch.randint(0, words, (4, 3)), hidden)
            loss = nn.functional.cross_entropy(output.view(-1, words), torch.randint(0, words, (12,)))
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        yield loss.item()


# -- a pipeline ------------------------------------------------------------------------------------
class Shard(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        torch.manual_seed(3)
        self._lock = threading.Lock()
        self.net = nn.Sequential(nn.Linear(*sizes), nn.Tanh())

    def forward(self, x_rref):
        x = x_rref.to_here()
        with self._lock:
            out = self.net(x)
        return out.cpu()

    def parameter_rrefs(self):
        return parameter_rrefs(self)


class Pipeline(nn.Module):
    def __init__(self, split_size):
        super().__init__()
        self.split_size = split_size
        self.first = rpc.remote("worker1", Shard, args=((5, 7),))
        self.second = rpc.remote("worker2", Shard, args=((7, 2),))

    def forward(self, xs):
        futures = []
        for x in iter(xs.split(self.split_size, dim=0)):
            y_rref = self.first.remote().forward(RRef(x))
            futures.append(self.second.rpc_async().forward(y_rref))
        return torch.cat(torch.futures.wait_all(futures))

    def parameter_rrefs(self):
        return [*self.first.remote().parameter_rrefs().to_here(), *self.second.remote().parameter_rrefs().to_here()]


def pipeline():
    model = Pipeline(2)
    optimizer = DistributedOptimizer(optim.Adam, model.parameter_rrefs(), lr=0.05)
    loss_function = nn.MSELoss()
    for _ in range(4):
        x, y = torch.randn(6, 5), torch.randn(6, 2)
        with dist_autograd.context() as context_id:
            loss = loss_function(model(x), y)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        yield loss.item()


# -- a server that waits for all trainers ----------------------------------------------------------
class BatchServer:
    def __init__(self, trainers):
        torch.manual_seed(4)
        self.model = nn.Linear(3, 1)
        self.lock, self.trainers, self.come = threading.Lock(), trainers, 0
        self.future = torch.futures.Future()
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def get_model(self):
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch_model(rref, grads):
        self = rref.local_value()
        with self.lock:
            self.come += 1
            for parameter, grad in zip(self.model.parameters(), grads):
                parameter.grad += grad
            future = self.future
            if self.come >= self.trainers:
                for parameter in self.model.parameters():
                    parameter.grad /= self.trainers
                self.come = 0
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                future.set_result(self.model)
                self.future = torch.futures.Future()
        return future


def train_in_batches(rref, number):
    torch.manual_seed(number)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    model, losses = rref.rpc_sync().get_model(), []
    for _ in range(4):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.item())
        model = rpc.rpc_sync(rref.owner(), BatchServer.update_and_fetch_model, args=(rref, [p.grad for p in model.cpu().parameters()]))
    return losses


def batches():
    server = RRef(BatchServer(2))
    done = [rpc.rpc_async(f"worker{i}", train_in_batches, args=(server, i)) for i in (1, 2)]
    yield from (loss for losses in torch.futures.wait_all(done) for loss in losses)


# -- data parallel trainers with a remote table ----------------------------------------------------
class Hybrid(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        torch.manual_seed(5)
        self.fc = DDP(nn.Linear(4, 3))

    def forward(self, indices, offsets):
        return self.fc(self.table.forward(indices, offsets))


def train_hybrid(table, rank):
    model, losses = Hybrid(table), []
    references = [*model.table.remote_parameters(), *parameter_rrefs(model.fc)]
    optimizer = DistributedOptimizer(optim.SGD, references, lr=0.2)
    torch.manual_seed(rank)
    for _ in range(3):
        indices, offsets, target = torch.randint(0, 9, (8,)), torch.arange(0, 8, 2), torch.randint(0, 3, (4,))
        with dist_autograd.context() as context_id:
            loss = nn.functional.cross_entropy(model(indices, offsets), target)
            dist_autograd.backward(context_id, [loss])
            grads = dist_autograd.get_gradients(context_id)
            losses.append(sum(grads[p].abs().sum().item() for p in model.fc.parameters()))
            dist.barrier()
            if rank == 0:  # both trainers step on one table, in any order: here only one does
                optimizer.step(context_id)
            dist.barrier()
    return losses


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.bag = nn.EmbeddingBag(9, 4, mode="sum")

    def forward(self, indices, offsets):
        return self.bag(indices, offsets)


def hybrid():
    table = RemoteModule("worker2", Bag)
    done = [rpc.rpc_async(f"worker{i}", train_hybrid, args=(table, i)) for i in (0, 1)]
    yield from (loss for losses in torch.futures.wait_all(done) for loss in losses)


def run(rank, world, port, other):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", str(port)
    torch.set_num_threads(1)
    if rank < 2:
        dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"tcp://localhost:{other}")
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://localhost:{port}", num_worker_threads=8)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    if rank == 0:
        for program in (parameter_server, recurrent, pipeline, batches, hybrid):
            torch.manual_seed(7)
            LOSSES[program.__name__] = list(program())
        print(json.dumps(LOSSES))
    rpc.shutdown()
    if rank < 2:
        dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(3, *map(int, sys.argv[1:])), nprocs=3, join=True)
