"""The settings of the game as kernels want them, checked first."""

from __future__ import annotations

from purerec.engines.pure.cpu.kernels import BILINEAR, FM, GMF, MF, Rules
from purerec.engines.pure.cpu.memory import padded
from purerec.engines.pure.spec import GameSettings
from purerec.errors import ConfigError

_SCORERS = {"mf": MF, "gmf": GMF, "bilinear": BILINEAR, "fm": FM}


def check_settings(s: GameSettings, threads: int | None) -> None:
    """What would make kernels read or divide where they must not; the rest is the model config's business."""
    if s.scorer not in _SCORERS:
        fact = f"the cpu engine has no scorer {s.scorer!r}"
        raise ConfigError(fact, "use engine='torch'", command="use --set engine=torch")
    if s.dim_i != s.dim and s.scorer != "bilinear":
        raise ConfigError(f"item_dim {s.dim_i} differs from dim {s.dim}, which {s.scorer!r} cannot score")
    if s.dim < 1 or s.dim_i < 1 or s.hidden < 1 or s.batch_size < 1:
        raise ConfigError("dim, item_dim, hidden and batch_size must be at least 1")
    if not 0.0 < s.prior < 1.0:
        raise ConfigError(f"prior must lie between 0 and 1, not {s.prior}")
    if s.softmax is not None and not (s.temperature > 0.0 and 0.0 <= s.observed < 1.0):
        raise ConfigError(
            f"temperature must be positive, and observed in [0, 1), not {s.temperature} and {s.observed}"
        )
    if not 0.0 <= s.fake_ratio <= 1.0:
        raise ConfigError(f"fake_ratio must lie in [0, 1], not {s.fake_ratio}")
    if s.epsilon <= 0.0:
        raise ConfigError(f"epsilon must be positive, not {s.epsilon}: rows without a gradient divide by it")
    if s.candidates < 1:
        raise ConfigError(f"candidates must be at least 1, not {s.candidates}")
    if threads not in (None, 1, 2):
        raise ConfigError(f"threads must be 1, 2 or None, not {threads}")


def rules_of(s: GameSettings) -> Rules:
    own, unlabeled, is_clamped, temperature = s.observed, 0.0, False, s.temperature
    if s.softmax is None:
        own, unlabeled, is_clamped = s.logistic.own, s.logistic.unlabeled, s.logistic.is_clamped
        temperature = 0.0
    return Rules(
        u_dim=padded(s.dim),
        i_dim=padded(s.dim_i),
        scorer=_SCORERS[s.scorer],
        temperature=float(temperature),
        own=float(own),
        unlabeled=float(unlabeled),
        is_clamped=is_clamped,
        fake=float(s.fake_weight / s.prior),
        train_bias=s.learns_bias,
        regularization=float(s.regularization),
        beta1=float(s.beta1),
        beta2=float(s.beta2),
        epsilon=float(s.epsilon),
    )
