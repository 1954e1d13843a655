"""The paper's claims (experiments/claims.toml), judged by the results files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from purerec.output.study.results import StudyResults, panels
from purerec.output.study.tables import TextTable, p_value
from purerec.output.study.tests import ClaimSpec, ClaimVerdict, Compared, Finding, compared, judged
from purerec.paper.printed import experiments_folder
from purerec.storage.toml_files import TomlTable, checked, read_toml

VERDICTS: tuple[ClaimVerdict, ...] = ("holds", "holds in part", "does not hold", "no results yet")


class _Claims(TomlTable):
    """The file."""

    claims: list[ClaimSpec]


@dataclass(frozen=True)
class Judged:
    """A claim and what was found about it."""

    claim: ClaimSpec
    finding: Finding


def claim_specs(path: Path | None = None) -> list[ClaimSpec]:
    """All claims, in the order of the file."""
    path = path or experiments_folder() / "claims.toml"
    return checked(path, read_toml(path), _Claims).claims


def judge(claims: Sequence[ClaimSpec], results: Mapping[str, StudyResults]) -> list[Judged]:
    """Every claim with its finding."""
    return [
        Judged(
            claim,
            judged(
                claim, [panel for name in claim.results if name in results for panel in panels(name, results[name])]
            ),
        )
        for claim in claims
    ]


def pairs_to_test(experiment: str, models: Collection[str], metrics: Sequence[str], metric: str) -> list[Compared]:
    """The (model, rival, metric) triples of an experiment to test by user, because claims are about them."""
    claims = [claim for claim in claim_specs() if experiment in claim.results]
    asked = [pair for claim in claims for pair in compared(claim, metric)]
    return [
        (model, rival, m)
        for model, rival, m in dict.fromkeys(asked)
        if model in models and rival in models and m in metrics and model != rival
    ]


def summary(found: Sequence[Judged]) -> str:
    """The number of claims that hold, in one sentence."""
    counts = {verdict: sum(one.finding.verdict == verdict for one in found) for verdict in VERDICTS}
    parts = [f"{count} {_PLURAL[verdict] if count != 1 else _SINGULAR[verdict]}" for verdict, count in counts.items()]
    told = [part for part, count in zip(parts, counts.values(), strict=True) if count]
    return f"Of {len(found)} claims of the paper, {', '.join(told)}."


_SINGULAR = {verdict: verdict for verdict in VERDICTS} | {"no results yet": "has no results yet"}
_PLURAL = dict(zip(VERDICTS, ("hold", "hold in part", "do not hold", "have no results yet"), strict=True))


def as_table(found: Sequence[Judged]) -> TextTable:
    """A row for each claim, with the details below it."""
    rows = []
    for one in found:
        claim, finding = one.claim, one.finding
        said = f"{finding.effect}. {claim.remark}".strip() if finding.effect else ""
        rows.append([claim.claim, claim.where, finding.verdict, said, finding.test, p_value(finding.p)])
    return TextTable("Claims", ["claim", "where", "verdict", "what was found", "test", "p"], rows)
