"""Controls: fakes that do not come from PURE's generators: `model =
"purerec.experiments.kinds.other_fakes:MixedFakes"`.

    MixedFakes      a mixture of an item that the person touched and a drawn one, the hardest of a few (MixGCF, Huang
                    et al. 2021)
    HardFakes       unlabeled draws, reweighted within a KL ball: in proportion to exp(phi / temperature), the worst
                    case behind the temperature of a softmax
    NoiseFakes      Gaussian noise with the mean and covariance of the real embeddings
    DroppedInputs   no fakes: a random tenth of the numbers of each embedding are left out

They replace the generators' fakes and keep all other settings of PURE, on the torch engine.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from purerec.data.interactions import Interactions
from purerec.engines.pure.spec import Batch, Engine, Params
from purerec.engines.pure.torch.engine import TorchEngine
from purerec.engines.pure.torch.modules import Pairs, RealSide
from purerec.engines.pure.torch.stats import Step
from purerec.engines.source import MemorySource
from purerec.models.pure import PURE, PUREGame
from purerec.types import F32

_MIXTURES = 4
_TEMPERATURE = 1.0
_DROPPED = 0.1


class _Mixed(TorchEngine):
    _touched: Tensor
    """(n_positives, d) items of the positives of the step"""

    def _discriminator_step(self, batch: Batch, real: dict[str, RealSide], learning_rate: float) -> Step:
        touched = self._tensor(batch.pos_item)
        self._touched = functional.embedding(touched, self.discriminator.item, sparse=True)
        return super()._discriminator_step(batch, real, learning_rate)

    def _fakes(self, batch: Batch, unlabeled: Pairs, real: dict[str, RealSide]) -> list[Pairs]:
        if not len(batch.item_noise):
            return []
        pairs = unlabeled.first(len(batch.item_noise))
        # Draw k of a batch belongs to the person of positive k modulo the number of positives.
        own = self._touched[torch.arange(len(pairs.e_i)) % len(self._touched)]
        shares = torch.rand(_MIXTURES, len(own), 1)
        mixed = shares * own + (1 - shares) * pairs.e_i
        phi = torch.stack([self.discriminator(pairs._replace(item_idx=None, e_i=m)) for m in mixed]).detach()
        hardest = mixed[phi.argmax(0), torch.arange(len(own))]
        return [pairs._replace(item_idx=None, e_i=hardest)]


class _Hard(TorchEngine):
    def _fakes(self, batch: Batch, unlabeled: Pairs, real: dict[str, RealSide]) -> list[Pairs]:
        if not len(batch.item_noise):
            return []
        phi = self.discriminator(unlabeled).detach()
        chosen = torch.multinomial(torch.softmax(phi / _TEMPERATURE, 0), len(batch.item_noise), replacement=True)
        return [Pairs(*(part[chosen] for part in unlabeled if part is not None))]


class _Noise(TorchEngine):
    def _generate(self, side: str, noise: F32, condition: Tensor, real: dict[str, RealSide]) -> Tensor:
        white = self._tensor(noise).double() / self.settings.noise
        return (real[side].mean + white @ real[side].factor.T).float()


class _Dropped(TorchEngine):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.discriminator.scorer.register_forward_pre_hook(_drop)


def _drop(scorer: nn.Module, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(functional.dropout(part, _DROPPED, scorer.training) for part in parts)


class _Game(PUREGame):
    def new_engine(self, params: Params | None, seed: int) -> Engine:
        assert isinstance(self.model, _OtherFakes)
        return self.model.engine_class(MemorySource(self.positives), self.settings, seed=seed, params=params)


class _OtherFakes(PURE):
    engine_class: ClassVar[type[TorchEngine]]

    def _fitting(self, train: Interactions, seed: int, start: Params | None = None) -> PUREGame:
        return _Game(self, train.positives, self._settings(train.positives), seed, start)


class MixedFakes(_OtherFakes):
    name: ClassVar[str] = "pure-mixed-fakes"
    engine_class = _Mixed


class HardFakes(_OtherFakes):
    name: ClassVar[str] = "pure-hard-fakes"
    engine_class = _Hard


class NoiseFakes(_OtherFakes):
    name: ClassVar[str] = "pure-noise-fakes"
    engine_class = _Noise


class DroppedInputs(_OtherFakes):
    name: ClassVar[str] = "pure-dropped-inputs"
    engine_class = _Dropped
