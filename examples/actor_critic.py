"""Advantage actor-critic on a pole that balances on a cart; the environment is in this file.

An ordinary PyTorch program. `python -m flambeau examples/actor_critic.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import math
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class CartPole:
    """The cart-pole task of Barto, Sutton and Anderson (1983): push left or right so that the pole stays upright.

    The state is position, velocity, angle and angular velocity in metres and radians; every step survived is worth 1.
    """

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, INTERVAL = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    MOST_STEPS = 300

    def __init__(self, seed):
        self.random = random.Random(seed)

    def reset(self):
        self.state = [self.random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return self.state

    def step(self, action):
        x, velocity, angle, spin = self.state
        force = self.FORCE if action == 1 else -self.FORCE
        mass = self.CART + self.POLE
        sine, cosine = math.sin(angle), math.cos(angle)
        push = (force + self.POLE * self.HALF_LENGTH * spin**2 * sine) / mass
        turn = (self.GRAVITY * sine - cosine * push) / (self.HALF_LENGTH * (4 / 3 - self.POLE * cosine**2 / mass))
        acceleration = push - self.POLE * self.HALF_LENGTH * turn * cosine / mass
        dt = self.INTERVAL
        self.state = [x + dt * velocity, velocity + dt * acceleration, angle + dt * spin, spin + dt * turn]
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)
        return self.state, 1.0, fallen, self.steps >= self.MOST_STEPS


class ActorCritic(nn.Module):
    """One body, two heads: the policy's logits and the value of the state."""

    def __init__(self, observations=4, actions=2, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, actions)
        self.value = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.policy.weight, gain=0.01)  # at first every action is equally likely
        nn.init.zeros_(self.policy.bias)

    def forward(self, state):
        features = self.body(state)
        return F.log_softmax(self.policy(features), dim=-1), self.value(features).squeeze(-1)


def play(environment, model):
    """One episode: states, actions, rewards, and the value of what would have come next (0 when the pole fell)."""
    states, actions, rewards = [], [], []
    state = torch.tensor(environment.reset())
    fallen = truncated = False
    with torch.no_grad():
        while not (fallen or truncated):
            log_probabilities, _ = model(state)
            action = torch.multinomial(log_probabilities.exp(), num_samples=1)
            states.append(state)
            actions.append(action)
            values, reward, fallen, truncated = environment.step(action.item())
            rewards.append(reward)
            state = torch.tensor(values)
        bootstrap = 0.0 if fallen else model(state)[1].item()
    return torch.stack(states), torch.cat(actions), rewards, bootstrap


def discounted(rewards, bootstrap, gamma):
    returns, following = [], bootstrap
    for reward in reversed(rewards):
        following = reward + gamma * following
        returns.append(following)
    return torch.tensor(returns[::-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="most episodes")
    parser.add_argument("--gamma", type=float, default=0.98)
    parser.add_argument("--entropy", type=float, default=0.01, help="weight of the policy's entropy")
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    environment = CartPole(options.seed)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    recent = deque(maxlen=20)
    for episode in range(1, options.steps + 1):
        states, actions, rewards, bootstrap = play(environment, model)
        returns = discounted(rewards, bootstrap, options.gamma)
        log_probabilities, values = model(states)
        advantages = returns - values.detach()
        if len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
        chosen = log_probabilities.gather(1, actions.unsqueeze(1)).squeeze(1)
        policy_loss = -(chosen * advantages).mean()
        value_loss = F.smooth_l1_loss(values, returns)
        entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=1).mean()
        loss = policy_loss + 0.5 * value_loss - options.entropy * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        recent.append(len(rewards))
        if episode <= 20:
            print(f"step {episode} loss {loss.item():.7f} {len(rewards)}")
        elif episode % 50 == 0:
            print(f"after {episode} episodes: the last {len(recent)} lasted {sum(recent) / len(recent):.1f} steps")
        if len(recent) == recent.maxlen and min(recent) == CartPole.MOST_STEPS:
            print(f"solved after {episode} episodes")
            break


if __name__ == "__main__":
    main()
