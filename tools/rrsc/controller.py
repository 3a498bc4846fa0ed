# SPDX-License-Identifier: MIT
"""The controllers: LSTMs that make one decision per step by softmax and are trained by REINFORCE with a baseline.

Additions to the rule of RR-SC, because 400 evaluations are few: rewards are divided by their standard deviation,
every choice keeps a minimum probability, and the likelihood of the best points so far is raised, as in priority
queue training (Abolafia et al. 2018).

One controller for each seed and restart runs in a batch, with weights and noise of its own: row g of every tensor
belongs to controller g, so its results do not depend on the others. The draws of update u depend only on seed,
restart and u, so the tensors are all the state that a search needs to continue.
"""
import dataclasses
import math

import torch


@dataclasses.dataclass(frozen=True)
class Settings:
    restarts: int = 5
    evaluations: int = 400      # different points that a restart evaluates
    refined: float = 0.3        # part of these, for neighbours of its best points after the last update
    batch: int = 10             # maximum of new evaluations per update
    draws: int = 20             # m: points drawn in an update; new ones beyond the batch are not evaluated
    start: int = 100            # points drawn in the first update, before any training
    rounds: float = 2.0         # updates, times evaluations / batch
    hidden: int = 16
    rate: float = 0.1           # of Adam
    floor: float = 0.15         # part of every decision's probability that is distributed evenly, for exploration
    elite: int = 5              # number of best feasible points of the restart whose likelihood is raised
    pull: float = 1.0           # weight of that term
    entropy: float = 0.05       # bonus at the first update, falling linearly to 0 at the last
    gamma: float = 1.0          # a decision's gradient counts gamma^(T - t)
    decay: float = 0.8          # of the moving average of rewards that is the baseline
    least: float = 0.02         # added to the standard deviation of rewards before dividing by it

    def __post_init__(self):
        if min(self.restarts, self.evaluations, self.batch, self.draws, self.hidden, self.elite) < 1:
            raise ValueError("restarts, evaluations, batch, draws, hidden and elite are 1 or more")
        if self.elite > self.start:
            raise ValueError("the first update evaluates fewer points than elite")
        if not 0 <= self.floor < 1 or self.rounds <= 0:
            raise ValueError("floor is 0 to 1, rounds above 0")
        if not 0 <= self.refined < 1:
            raise ValueError("refined is 0 to 1")

    @property
    def updates(self):
        return math.ceil(self.rounds * self.evaluations / self.batch)

    def allowed(self, update):
        """Maximum of points evaluated up to and including an update."""
        return min(round(self.evaluations * (1 - self.refined)), self.start + self.batch * update)


def _generator(*numbers):
    """A random generator seeded by a tuple of small numbers."""
    seed = 0
    for n in numbers:
        seed = (seed * 1000003 + n + 1) % (1 << 62)
    return torch.Generator().manual_seed(seed)


class Controllers:
    def __init__(self, options, seeds, settings):
        """options: choices of each decision; seeds: one number for each search."""
        self.options, self.settings = list(options), settings
        self.groups = [(seed, restart) for seed in seeds for restart in range(settings.restarts)]
        steps, most, h = len(self.options), max(self.options), settings.hidden
        shapes = {
            "start": (1, h),                        # input of the first step
            "embed": (steps, most, h),              # of a choice, input of the next step
            "gates": (2 * h, 4 * h), "gates_bias": (1, 4 * h),
            "heads": (steps, h, most), "heads_bias": (steps, 1, most),
        }
        draw = [_generator(seed, restart) for seed, restart in self.groups]
        self.weights = {}
        for name, shape in shapes.items():
            w = torch.stack([torch.rand(shape, generator=g) for g in draw])
            self.weights[name] = (0.2 * w - 0.1).requires_grad_()
        self.optimiser = torch.optim.Adam(self.weights.values(), settings.rate)
        self.legal = torch.tensor([[i < n for i in range(most)] for n in self.options])
        self.baseline = self.spread = torch.zeros(len(self.groups))
        self.update = 0

    def _noise(self, batch):
        """Gumbel noise [groups, batch, steps, choices]: argmax(logits + noise) is a draw from their softmax."""
        shape = (batch, *self.legal.shape)
        u = torch.stack([torch.rand(shape, generator=_generator(*g, 7, self.update)) for g in self.groups])
        return -torch.log(-torch.log(u.clamp(1e-9, 1 - 1e-7)))

    def draw(self, elite=None):
        """
        Choices of this update with their log probabilities and entropies, all [groups, rows, steps].
        elite: [groups, rows, steps], earlier choices that form the first rows instead of draws.
        """
        first = 0 if elite is None else elite.shape[1]
        rows, w = first + (self.settings.draws if self.update else self.settings.start), self.weights
        noise, n, h = self._noise(rows), len(self.groups), self.settings.hidden
        x = w["start"].expand(n, rows, h)
        state, cell = torch.zeros(n, rows, h), torch.zeros(n, rows, h)
        choices, logs, entropies = [], [], []
        for t in range(len(self.options)):
            gates = torch.baddbmm(w["gates_bias"], torch.cat([x, state], 2), w["gates"])
            i, f, o, c = gates.chunk(4, 2)
            cell = torch.sigmoid(f + 1) * cell + torch.sigmoid(i) * torch.tanh(c)
            state = torch.sigmoid(o) * torch.tanh(cell)
            log = self._policy(t, state)
            choice = (log + noise[:, :, t]).detach().argmax(2)
            if first:
                choice[:, :first] = elite[:, :, t]
            choices.append(choice)
            logs.append(log.gather(2, choice.unsqueeze(2)).squeeze(2))
            entropies.append(-(log.exp() * log).sum(2))
            x = w["embed"][:, t].gather(1, choice.unsqueeze(2).expand(n, rows, h))
        return torch.stack(choices, 2), torch.stack(logs, 2), torch.stack(entropies, 2)

    def _policy(self, t, state):
        """Log probabilities of decision t: a softmax mixed with the uniform distribution."""
        logits = torch.baddbmm(self.weights["heads_bias"][:, t], state, self.weights["heads"][:, t])
        share = self.settings.floor
        p = torch.softmax(logits.masked_fill(~self.legal[t], -1e9), 2)
        return ((1 - share) * p + share * self.legal[t] / self.options[t] + 1e-12).log()

    def learn(self, logs, entropies, rewards, known, pulled=None):
        """One step of gradient ascent; rewards [groups, draws] count where `known` is 1.
        pulled: [groups, rows], 1 for the elite rows of draw() whose likelihood is raised."""
        s, first = self.settings, self.update == 0
        elite = 0 if pulled is None else pulled.shape[1]
        pull = (s.pull * logs[:, :elite].sum(2) * pulled).sum(1) / elite if elite else 0.0
        logs, entropies = logs[:, elite:], entropies[:, elite:]
        count = known.sum(1).clamp(min=1)
        mean = (rewards * known).sum(1) / count
        spread = (((rewards - mean.unsqueeze(1)) ** 2 * known).sum(1) / count).sqrt()
        self.baseline = mean if first else s.decay * self.baseline + (1 - s.decay) * mean
        self.spread = spread if first else s.decay * self.spread + (1 - s.decay) * spread
        steps = logs.shape[2]
        discount = torch.tensor([s.gamma ** (steps - 1 - t) for t in range(steps)])
        gain = (rewards - self.baseline.unsqueeze(1)) / (self.spread + s.least).unsqueeze(1) * known
        gain = (gain.unsqueeze(2) * logs * discount).sum(2).sum(1) / count
        bonus = s.entropy * (1 - self.update / s.updates) * entropies.sum(2).mean(1)
        self.optimiser.zero_grad()
        (-(gain + bonus + pull)).sum().backward()
        self.optimiser.step()
        self.update += 1

    @property
    def finished(self):
        return self.update >= self.settings.updates

    def state(self):
        """All mutable state as tensors and integers, which torch.load() reads without executing code."""
        moments = [{k: self.optimiser.state[w][k] for k in ("step", "exp_avg", "exp_avg_sq")}
                   for w in self.weights.values()] if self.update else []
        return {"weights": {k: v.detach() for k, v in self.weights.items()}, "moments": moments,
                "baseline": self.baseline, "spread": self.spread, "update": self.update}

    def restore(self, state):
        with torch.no_grad():
            for k, v in self.weights.items():
                v.copy_(state["weights"][k])
        for w, moments in zip(self.weights.values(), state["moments"]):
            self.optimiser.state[w] = dict(moments)
        self.baseline, self.spread, self.update = state["baseline"], state["spread"], state["update"]
