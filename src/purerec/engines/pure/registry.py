"""All engines by name. The registry is a literal, so that reading it imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from purerec.engines.distributed.group import current_group
from purerec.engines.pure.spec import Engine, EngineName, GameSettings, Params, ScorerName
from purerec.engines.source import DataSource
from purerec.errors import ConfigError

EngineChoice = Literal["auto", "cpu", "torch"]


@dataclass(frozen=True)
class EngineEntry:
    """Where an engine is, and which scorers it supports."""

    module: str
    cls: str
    scorers: tuple[ScorerName, ...]
    takes_modules: bool = False
    """Whether a torch module may replace the scorer"""


ENGINES: dict[EngineName, EngineEntry] = {
    "cpu": EngineEntry("purerec.engines.pure.cpu.engine", "CpuEngine", ("mf", "gmf", "bilinear", "fm")),
    "torch": EngineEntry(
        "purerec.engines.pure.torch.engine",
        "TorchEngine",
        ("mf", "gmf", "bilinear", "fm", "mlp"),
        takes_modules=True,
    ),
}
"""In the order in which `auto` tries them"""


def chosen_engine(choice: EngineChoice, scorer: ScorerName, scorer_module: Any = None) -> EngineName:
    """The engine that `choice` means; auto: the first that supports the scorer."""
    if choice != "auto":
        if scorer_module is not None and not ENGINES[choice].takes_modules:
            raise ConfigError("a scorer of your own needs engine='torch' (or 'auto')")
        return choice
    if scorer_module is not None:
        return next(name for name, entry in ENGINES.items() if entry.takes_modules)
    return next(name for name, entry in ENGINES.items() if scorer in entry.scorers)


def new_engine(
    choice: EngineChoice,
    source: DataSource,
    settings: GameSettings,
    *,
    seed: int,
    params: Params | None = None,
    scorer_module: Any = None,
) -> Engine:
    """An engine that is ready to train on the positives of `source`.

    `params`, named as in `Engine.parameters`, replace some or all of the random initial values. Where several
    processes share their fits (`distributed.group.sharing_with`), they share the engine.
    """
    name, group = chosen_engine(choice, settings.scorer, scorer_module), current_group()
    if group is not None:
        if scorer_module is not None:
            raise ConfigError(
                "several workers cannot share a scorer of your own, whose weights are shared by all pairs"
            )
        from purerec.engines.distributed.engine import DistributedEngine

        return DistributedEngine(
            source, settings, seed=seed, params=params, group=group, n_shards=group.shards, engine=name
        )
    entry = ENGINES[name]
    options = {} if scorer_module is None else {"scorer_module": scorer_module}
    engine: Engine = getattr(import_module(entry.module), entry.cls)(
        source, settings, seed=seed, params=params, **options
    )
    return engine
