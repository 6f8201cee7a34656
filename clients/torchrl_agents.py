"""torchrl: an environment of one's own stepped and transformed, a replay buffer, estimates of advantages, an agent trained by PPO."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded, Categorical, Composite, LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer, Unbounded
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, SamplerWithoutReplacement
from torchrl.envs import Compose, EnvBase, RewardSum, StepCounter, TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss, DQNLoss, SoftUpdate
from torchrl.objectives.value import GAE

PACKAGES = ["torchrl", "tensordict"]


class Line(EnvBase):
    """A point on a line, which wants to be at 0."""

    def __init__(self, seed=0):
        super().__init__(device="cpu", batch_size=[])
        self.observation_spec = Composite(position=Bounded(-3.0, 3.0, shape=(1,)))
        self.action_spec = Categorical(2, shape=())
        self.reward_spec = Unbounded(shape=(1,))
        self._set_seed(seed)

    def _set_seed(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def _reset(self, given):
        self.position = torch.rand(1, generator=self.generator) * 4 - 2
        return TensorDict({"position": self.position.clone(), "done": torch.zeros(1, dtype=torch.bool)}, [])

    def _step(self, given):
        self.position = (self.position + given["action"].float() * 0.6 - 0.3).clamp(-3, 3)
        done = self.position.abs() < 0.2
        return TensorDict({"position": self.position.clone(), "reward": -self.position.abs(), "done": done, "terminated": done.clone()}, [])


def trained():
    torch.manual_seed(0)
    env = TransformedEnv(Line(), Compose(StepCounter(12), RewardSum()))
    net = TensorDictModule(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2)), ["position"], ["logits"])
    actor = ProbabilisticActor(net, in_keys=["logits"], distribution_class=torch.distributions.Categorical, return_log_prob=True)
    critic = ValueOperator(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)), in_keys=["position"])
    advantage = GAE(gamma=0.95, lmbda=0.9, value_network=critic)
    objective = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(objective.parameters(), 0.01)
    returns, losses = [], []
    for _ in range(3):
        with torch.no_grad():
            data = env.rollout(24, actor, break_when_any_done=False)
        advantage(data)
        returns.append(data["next", "reward"].sum())
        for _ in range(2):
            terms = objective(data)
            loss = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return {
        "returns": returns,
        "losses": losses,
        "advantage": data["advantage"][:5, 0],
        "episodes": data["next", "episode_reward"][:6, 0],
        "steps": data["step_count"][:6, 0],
        "keys": sorted(map(str, data.keys())),
    }


def stored():
    torch.manual_seed(1)
    data = TensorDict({"x": torch.arange(20.0), "td_error": torch.linspace(0, 1, 20)}, [20])
    buffer = ReplayBuffer(storage=LazyTensorStorage(50), sampler=SamplerWithoutReplacement(), batch_size=5)
    buffer.extend(data)
    prioritized = TensorDictReplayBuffer(
        storage=LazyTensorStorage(50), batch_size=4, priority_key="td_error", sampler=SamplerWithoutReplacement()
    )
    prioritized.extend(data)
    return {"sample": buffer.sample()["x"], "length": [len(buffer), len(prioritized)], "sampler": PrioritizedSampler.__name__}


def valued():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    from torchrl.modules import QValueActor

    actor = QValueActor(net, in_keys=["observation"], spec=Categorical(2), action_space="categorical")
    loss = DQNLoss(actor, action_space="categorical", delay_value=True)
    loss.make_value_estimator(gamma=0.9)
    target = SoftUpdate(loss, eps=0.9)
    data = TensorDict(
        {
            "observation": torch.randn(6, 3),
            "action": torch.randint(0, 2, (6,)),
            "next": {
                "observation": torch.randn(6, 3),
                "reward": torch.randn(6, 1),
                "done": torch.zeros(6, 1, dtype=torch.bool),
                "terminated": torch.zeros(6, 1, dtype=torch.bool),
            },
        },
        [6],
    )
    value = loss(data)["loss"]
    value.backward()
    target.step()
    return {"dqn": value, "gradient": [p.grad.norm() for p in net.parameters() if p.grad is not None], "chosen": actor(data)["action"]}


def results():
    return {**trained(), **stored(), **valued()}
