"""The schema of an experiment's TOML file, checked when read: errors name any misspelt key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from purerec.errors import ConfigError, did_you_mean
from purerec.evaluation.metrics import parse_of_ranks
from purerec.evaluation.protocols import Protocol
from purerec.storage.toml_files import TomlTable, checked, read_toml

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
QUICK_DATA = "ml-100k"  # for --quick
RankMetric = Annotated[str, AfterValidator(lambda name: parse_of_ranks(name).name)]


class Line(TomlTable):
    """One model of an experiment."""

    name: str
    """Its name in the results."""
    model: str | None = None
    """Its name in the registry, if different."""
    settings: dict[str, Any] = Field(default={})
    preset: str | bool | None = None
    """A preset of PURE.paper, instead of the defaults; true: that of the data set."""
    tuned: bool = True
    """False: do not use the tuned settings, even if the experiment does."""
    vary: dict[str, list[Any]] = Field(default={}, max_length=1)
    """One setting and its values, with a row for each."""
    seeds: Count | None = None
    """The maximum, if fits take long."""
    note: str | None = None
    """A footnote: what was substituted or adapted. Shown with the table."""
    quick: bool = True
    """False: left out by --quick."""

    @property
    def model_name(self) -> str:
        return self.name if self.model is None else self.model

    def rows(self) -> dict[str, dict[str, Any]]:
        """The names of its rows, and the settings that distinguish them."""
        if not self.vary:
            return {self.name: {}}
        ((key, values),) = self.vary.items()
        said = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
        return {f"{self.name}, {key} {text}": {key: value} for text, value in zip(said, values, strict=True)}


class Experiment(TomlTable):
    """What every experiment specifies."""

    title: str
    seeds: Count
    metric: RankMetric
    slow: bool = False
    """Left out of `all --quick`, which should end within five minutes; runs if named."""


class WithBaseline(Experiment):
    """An experiment whose models are tested against one of them."""

    baseline: str
    models: list[Line]

    @model_validator(mode="after")
    def _names_are_clear(self) -> Self:
        names = [name for line in self.models for name in line.rows()]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two models are called {min(twice)!r}; give each a name of its own")
        if self.baseline not in names:
            raise ValueError(
                f"the baseline {self.baseline!r} is none of the models; {did_you_mean(self.baseline, names)}"
            )
        return self


class OnData(TomlTable):
    """One split of one data set, and the settings of models there."""

    data: str
    split: str
    n: Count | None = None
    settings: dict[str, Any] = Field(default={})
    """Settings for all models that have them."""
    tuned: bool = False
    """Use the settings in experiments/tuned/DATA.toml."""


class OnOneSplit(WithBaseline, OnData):
    """An experiment on one split of one data set."""


class PanelSpec(OnData):
    """How models are compared on one split; a table has one or more such panels."""

    protocol: Protocol = "exact"
    pool: Count = 500
    only: list[str] | None = None
    """The models of this panel, if not all, by the names of their rows or lines."""
    quick: dict[str, Any] | None = None
    """Changes for --quick, above all the data. Without it, --quick leaves out larger data."""

    @model_validator(mode="after")
    def _quick_form_is_one(self) -> Self:
        self.in_quick()
        return self

    def in_quick(self) -> Self | None:
        """The version that --quick runs, if there is one."""
        if self.quick is not None:
            left_out = {"quick"} | ({"n"} if "split" in self.quick else set())  # another split has its own n, or none
            return type(self).model_validate(self.model_dump(exclude=left_out, exclude_unset=True) | self.quick)
        return self if self.data == QUICK_DATA else None


class ComparisonSpec(OnOneSplit, PanelSpec):
    """Models on the test part of a split."""

    kind: Literal["comparison"] = "comparison"
    protocol: Protocol
    metrics: list[str] | None = None
    """What is measured; by default the data set's own metrics."""


class PanelsSpec(WithBaseline):
    """Models on several splits, or on one with several protocols."""

    kind: Literal["panels"]
    panels: list[PanelSpec] = Field(min_length=1)
    metrics: list[str] | None = None


class StatisticsSpec(TomlTable):
    """The sizes of data sets, alongside those in the paper."""

    kind: Literal["statistics"]
    title: str
    data: list[str] = Field(min_length=1)


class ValidationSpec(OnOneSplit):
    """Models on random validation splits of the train part."""

    kind: Literal["validation"]
    positives_each: Count | None = None
    """Thin the train part to this many positives per person."""
    metrics: list[RankMetric] | None = None
    """What is measured; by default the data set's own metrics."""


class GameSpec(OnOneSplit):
    """A look inside PURE's game, with the settings of each line."""

    kind: Literal["game"]
    points: Count
    """Number of real and of generated embeddings on a map."""
    pairs: Count
    """Number of pairs whose scores are shown."""


class WorldSpec(TomlTable):
    """Arguments of make_world."""

    users: Count
    items: Count
    dim: Count = 8
    prior: Share = 0.05
    interactions: Count | None = None


class ExposureSpec(WithBaseline):
    """Models on synthetic worlds of different exposure bias."""

    kind: Literal["exposure"]
    exposures: list[float]
    candidates: dict[str, list[Any]] = Field(min_length=1, max_length=1)
    """One setting and its candidate values, chosen from for each model and world."""
    world: WorldSpec
    test_users: Count


class RelevanceSpec(Experiment):
    """Estimated and true relevance on synthetic worlds."""

    kind: Literal["relevance"]
    exposures: list[float]
    world: WorldSpec
    test_users: Count
    groups: Count
    """Number of groups of pairs, by true relevance."""
    models: list[Line]


class FoldingSpec(Experiment):
    """Folded-in people compared with people in training."""

    kind: Literal["folding"]
    data: list[str]
    held_out: Share
    given: Share
    models: list[str]


class UpdatingSpec(Experiment):
    """Updated models compared with old and refitted ones."""

    kind: Literal["updating"]
    data: list[str]
    shares: list[Share] = Field(min_length=3, max_length=3)
    models: list[Line]


class SimilarSpec(TomlTable):
    """Similar items, judged by what held-out people like together."""

    kind: Literal["similar"]
    title: str
    seeds: Count
    data: list[str]
    models: list[str]
    k: Count
    """Number of similar items per item."""
    held_out: Annotated[float, Field(gt=0, lt=0.5)]
    """Share of people used to choose the shrinkage, and share used to judge it."""
    fans: Count
    """Items liked by fewer of them are skipped."""
    shrinkages: list[Annotated[float, Field(ge=0)]]


class LogSpec(TomlTable):
    """A log that settings are tried on."""

    name: str
    data: str | None = None
    """A name of the catalog or a file; its train part is used."""
    world: WorldSpec | None = None
    """A synthetic log, instead of `data`."""
    people: Count | None = None
    """A random sample of this many people."""
    positives_each: Count | None = None
    """Thin the log to this many positives per person."""
    newcomers: Share = 0.0
    """Thin this share of the people to a single positive, as in logs of shops, which most people visit once."""
    held_out: Literal["ratio", "temporal"] = "ratio"
    """Validation rows: a random fifth, or the latest fifth."""
    seeds: Count = 5
    """The maximum, if fits take long."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.data is None) == (self.world is None):
            raise ValueError(f"{self.name!r} needs either data or world")
        return self


class LeaveOneOutSpec(Experiment):
    """Tests whether settings chosen on other logs hold on the one left out."""

    kind: Literal["leave_one_out"]
    data: list[LogSpec] = Field(min_length=2)
    models: dict[str, list[dict[str, Any]]]
    """For each model, changes to its defaults. 'x0.5' is half of the default on the log at hand."""


class KnownWorldSpec(WorldSpec):
    """A world whose log has a given length and bias."""

    exposure: float
    interactions: Count
    affinity: float = 2.0
    activity: float = 0.5


class PriorSpec(TomlTable):
    """Estimates of the class prior in worlds where it is known."""

    kind: Literal["prior"]
    title: str
    seeds: Count
    methods: list[Literal["best_bin", "elkan_noto"]] = Field(min_length=1)
    worlds: dict[str, KnownWorldSpec]


AnyExperiment = (
    ComparisonSpec
    | PanelsSpec
    | StatisticsSpec
    | ValidationSpec
    | GameSpec
    | ExposureSpec
    | RelevanceSpec
    | FoldingSpec
    | UpdatingSpec
    | LeaveOneOutSpec
    | PriorSpec
    | SimilarSpec
)
_KINDS: dict[str, type[AnyExperiment]] = {
    str(get_args(kind.model_fields["kind"].annotation)[0]): kind for kind in get_args(AnyExperiment)
}


def read_experiment(path: Path) -> AnyExperiment:
    """The experiment that a TOML file describes."""
    content = read_toml(path)
    name = content.get("kind", "comparison")
    if not isinstance(name, str) or name not in _KINDS:
        raise ConfigError(f"{path}: there is no kind of experiment {name!r}; {did_you_mean(str(name), _KINDS)}")
    return checked(path, content, _KINDS[name])
