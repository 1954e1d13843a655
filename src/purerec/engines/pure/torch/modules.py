"""Section 3 of the paper as torch modules: scorers, generators and objectives.

From top to bottom: the scorers and `Discriminator` are phi; `Generator` is Eq. (generator); `limit_norm` and
`recolour` keep the fakes among the real embeddings; `risk` and `generator_loss` are the objectives that
`spec` spells out. `engine` plays Algorithm 1 with them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import softplus

from purerec.engines.pure.spec import GameSettings
from purerec.errors import DivergedError
from purerec.paper.risks import LogisticRisk, SoftmaxRisk

# --- The discriminator: phi(u, i) = scorer(e_u, e_i) + bias


class Dot(nn.Module):
    """`mf` and `fm`: e_u . e_i. Every scorer takes (n, d_u) and (n, d_i) and gives (n,) logits."""

    def forward(self, e_u: Tensor, e_i: Tensor) -> Tensor:
        return (e_u * e_i).sum(1)


class GMFScorer(nn.Module):
    """`gmf`, Eq. (GMF): (e_u * e_i) . r."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.relation = nn.Parameter(torch.ones(dim))

    def forward(self, e_u: Tensor, e_i: Tensor) -> Tensor:
        return (e_u * e_i) @ self.relation


class Bilinear(nn.Module):
    """`bilinear`, Eq. (generalized_D): e_u . M e_i, with embeddings of any two widths."""

    def __init__(self, dim_u: int, dim_i: int) -> None:
        super().__init__()
        self.relation = nn.Parameter(torch.eye(dim_u, dim_i))

    def forward(self, e_u: Tensor, e_i: Tensor) -> Tensor:
        return (e_u @ self.relation * e_i).sum(1)


class MLP(nn.Module):
    """`mlp`: both embeddings side by side through 32 and 16 hidden units (neural collaborative filtering)."""

    def __init__(self, dim_u: int, dim_i: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(dim_u + dim_i, 32),
            nn.ReLU(),
            nn.Linear(32, 16),
            nn.ReLU(),
            nn.Linear(16, 1, bias=False),  # the discriminator has a bias already
        )

    def forward(self, e_u: Tensor, e_i: Tensor) -> Tensor:
        phi: Tensor = self.mlp(torch.cat([e_u, e_i], 1))
        return phi.squeeze(1)


class Pairs(NamedTuple):
    """n pairs of a user and an item. An index of None means that this side consists of fakes."""

    user_idx: Tensor | None
    item_idx: Tensor | None
    e_u: Tensor
    e_i: Tensor

    def first(self, n: int) -> Pairs:
        user_idx = None if self.user_idx is None else self.user_idx[:n]
        item_idx = None if self.item_idx is None else self.item_idx[:n]
        return Pairs(user_idx, item_idx, self.e_u[:n], self.e_i[:n])


class Discriminator(nn.Module):
    """D = sigmoid(phi): an embedding for each user and item, a scorer, a bias, and for `fm` one for each row.

    Rows have sparse gradients, so that the cost of a step depends on its batch and not on the catalogue.
    """

    def __init__(self, n_users: int, n_items: int, settings: GameSettings, scorer: nn.Module) -> None:
        super().__init__()
        self.user = nn.Parameter(torch.empty(n_users, settings.dim))
        self.item = nn.Parameter(torch.empty(n_items, settings.dim_i))
        self.bias = nn.Parameter(torch.empty(1), requires_grad=settings.learns_bias)
        self.scorer = scorer
        self.has_row_bias = settings.scorer == "fm"
        if self.has_row_bias:
            self.user_bias = nn.Parameter(torch.empty(n_users), requires_grad=settings.softmax is None)
            self.item_bias = nn.Parameter(torch.empty(n_items))

    def pairs(self, user_idx: Tensor, item_idx: Tensor) -> Pairs:
        e_u = functional.embedding(user_idx, self.user, sparse=True)
        e_i = functional.embedding(item_idx, self.item, sparse=True)
        return Pairs(user_idx, item_idx, e_u, e_i)

    def forward(self, pairs: Pairs) -> Tensor:
        """Logits phi, (n,). A fake has no bias of its own."""
        phi: Tensor = self.scorer(pairs.e_u, pairs.e_i) + self.bias
        if self.has_row_bias and pairs.user_idx is not None:
            phi = phi + torch.gather(self.user_bias, 0, pairs.user_idx, sparse_grad=True)
        if self.has_row_bias and pairs.item_idx is not None:
            phi = phi + torch.gather(self.item_bias, 0, pairs.item_idx, sparse_grad=True)
        return phi


# --- The generators, and what keeps their fakes among the real embeddings


class Generator(nn.Module):
    """Eq. (generator): from noise, and if conditional the other side's embedding, to a fake embedding."""

    def __init__(self, n_in: int, n_out: int, settings: GameSettings) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(settings.hidden, n_in))
        self.b1 = nn.Parameter(torch.empty(settings.hidden))
        self.w2 = nn.Parameter(torch.empty(n_out, settings.hidden))
        self.b2 = nn.Parameter(torch.empty(n_out))
        self.rectified = settings.output == "relu"

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(functional.linear(x, self.w1, self.b1))
        x = functional.linear(x, self.w2, self.b2)
        return functional.relu(x) if self.rectified else x


class RealSide(NamedTuple):
    """What constrains the fakes of a side: the real embeddings, each weighted by its number of positives."""

    mean: Tensor
    """(d,) float64."""
    factor: Tensor
    """(d, d) float64, the lower Cholesky factor of the covariance."""
    norm: Tensor
    """() the mean length."""


@torch.no_grad()
def real_side(rows: Tensor, weight: Tensor) -> RealSide:
    """Moments of the (n, d) embeddings of one side."""
    share = weight / weight.sum()
    mean, factor = moments(rows, share)
    return RealSide(mean, factor, share @ rows.double().norm(dim=1))


def moments(rows: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and Cholesky factor (d, d) of the covariance of rows with these shares (n,), in float64.

    A generator whose units are dead, or a batch smaller than d, has a singular covariance: hence the ridge, and
    float64, in which such a small ridge still counts.
    """
    x = rows.double()
    mean = share @ x
    covariance = ((x - mean) * share[:, None]).T @ (x - mean)
    ridge = 1e-6 * covariance.diagonal().mean() + 1e-12
    factor, _ = torch.linalg.cholesky_ex(covariance + ridge * torch.eye(len(mean), device=x.device))
    if not covariance.isfinite().all():
        raise DivergedError(
            "embeddings or fakes are no longer finite, so they cannot be recoloured; lower learning_rate"
        )
    return mean, factor


def recolour(x: Tensor, real: RealSide) -> Tensor:
    """Give the fakes (n, d) of a batch the mean and covariance of the real side. The map is held constant.

    A single fake has no covariance: it becomes the real mean, and its gradient passes unchanged.
    """
    if len(x) == 1:
        return real.mean.float() + (x - x.detach())
    with torch.no_grad():
        mean, factor = moments(x, x.new_full((len(x),), 1 / len(x), dtype=torch.float64))
        colour = torch.linalg.solve_triangular(factor, real.factor, upper=False, left=False)  # L_r inv(L_b)
    fake: Tensor = real.mean + (x - mean) @ colour.T
    return fake.float()


def limit_norm(x: Tensor, real: RealSide) -> Tensor:
    """Scale down every fake of (n, d) that is longer than the real mean. The scale is held constant."""
    length = x.detach().norm(dim=1, keepdim=True)
    return x * torch.where(length > real.norm, real.norm / length, 1.0).float()


CONSTRAINTS = {"norm": limit_norm, "recolour": recolour}


# --- The objectives


def mean(values: Tensor) -> Tensor:
    """The mean, or 0 if empty: a batch without unlabeled pairs or fakes has no such term."""
    return values.sum() / max(len(values), 1)


def risk(phi_p: Tensor, phi_u: Tensor, weights: LogisticRisk) -> Tensor:
    """The PN or PU risk over the prior, or the step of non-negative PU learning; see `purerec.paper.risks`."""
    negative = weights.unlabeled * mean(softplus(phi_u)) - (1 - weights.positive) * mean(softplus(phi_p))
    if weights.is_clamped and negative.detach() < 0:
        return -negative
    return mean(softplus(-phi_p)) + negative


def softmax_risk(phi_p: Tensor, phi_u: Tensor, weights: SoftmaxRisk) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax risk, and the shares of positives and of draws in it; see `purerec.paper.risks`."""
    n, n_u = len(phi_p), len(phi_u)
    drawn = functional.pad(phi_u / weights.temperature, (0, -n_u % n), value=-torch.inf).reshape(-1, n)
    drawn = drawn + torch.log((1 - weights.observed) / drawn.isfinite().sum(0))
    own = phi_p / weights.temperature + (math.log(weights.observed) if weights.observed > 0 else -torch.inf)
    log_sum = torch.cat([own[None], drawn]).logsumexp(0)
    shares = (drawn.detach() - log_sum.detach()).exp().flatten()[:n_u]
    return mean(log_sum - phi_p / weights.temperature), (own.detach() - log_sum.detach()).exp(), shares


def generator_loss(phi_fake: Tensor, settings: GameSettings) -> Tensor:
    """Label 1 for the fakes (Algorithm 1), or Eq. (final_objective) as printed."""
    if settings.generator_loss == "nonsaturating":
        return mean(softplus(-phi_fake))
    return -mean(softplus(phi_fake))


def squared_length(pairs: Pairs) -> Tensor:
    return mean(pairs.e_u.square().sum(1) + pairs.e_i.square().sum(1))


def new_scorer(settings: GameSettings) -> nn.Module:
    """The scorer of the settings."""
    d_u, d_i = settings.dim, settings.dim_i
    match settings.scorer:
        case "gmf":
            return GMFScorer(d_u)
        case "bilinear":
            return Bilinear(d_u, d_i)
        case "mlp":
            return MLP(d_u, d_i)
        case "mf" | "fm":
            return Dot()


def new_generators(settings: GameSettings) -> nn.ModuleDict:
    """`item_gen`, `user_gen`, both or none."""
    d_u, d_i, seen = settings.dim, settings.dim_i, int(settings.conditional)
    generators = nn.ModuleDict()
    if "item" in settings.generators_of:
        generators["item_gen"] = Generator(d_i + d_u * seen, d_i, settings)
    if "user" in settings.generators_of:
        generators["user_gen"] = Generator(d_u + d_i * seen, d_u, settings)
    return generators
