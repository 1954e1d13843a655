"""What `make demo` runs: fetch ML-100k, fit PURE, compare it with the paper, recommend, write a report."""

from __future__ import annotations

import sys
from pathlib import Path

import purerec as pr
from purerec.output import console
from purerec.output.report import fit_report
from purerec.paper.printed import paper_row


def main() -> None:
    data = pr.load("ml-100k")
    split = pr.split(data, how="official")
    console.say(repr(data))
    console.say(f"split: {split.describe()}\n")

    model = pr.PURE()
    model.fit(split.full_train, seed=0, run=pr.Run(progress=sys.stderr.isatty()))
    result = pr.evaluate(model, split)
    console.say(f"PURE, fitted in {model.fitted_on.fit_seconds:.1f} s; {result.label}:")
    printed = paper_row("ml-100k", "pure") or {}
    width = f", d = {model.fitted_on.resolved['dim']}"
    console.table(
        ["", *result.metrics],
        [
            [f"purerec{width}", *result.metrics.values()],
            ["paper, d = 5", *(printed[name] for name in result.metrics)],
        ],
    )

    for user in ("196", "22"):
        liked = data.positives.row(data.users.index(user))
        console.say(f"\nuser {user} liked {', '.join(data.label(i) for i in liked[:4])}, ...; next:")
        found = model.recommend([user], k=5)
        console.table(["rank", "title", "score"], found.select("rank", "label", "score").rows())

    folder = Path("demo-model")
    model.save(folder, metrics=result.metrics, files={"report.html": fit_report(model, result).encode()})
    console.say(f"\nmodel: {folder}/   report: {folder / 'report.html'}")
    tool = Path(sys.executable).with_name("purerec")
    if tool.is_relative_to(Path.cwd()):
        tool = tool.relative_to(Path.cwd())
    console.say(f"try it:  {tool} serve {folder}   and open http://127.0.0.1:8000")
    console.say(f"or:      {tool} recommend {folder} --history 50,181 -k 5")


if __name__ == "__main__":
    main()
