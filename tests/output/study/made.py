"""Results files as experiments write them, with known numbers."""


def panel(
    values, *, data="ml-100k", protocol="exact", metric="P@5", baseline="pure", tests=(), varied=None, seconds=None
):
    """`values`: for each row its metric, one number per seed, or a dict of such lists by metric."""
    models = {}
    for name, found in values.items():
        columns = found if isinstance(found, dict) else {metric: found}
        models[name] = [
            {
                "metrics": {m: numbers[seed] for m, numbers in columns.items()},
                "seed": seed,
                "fit_seconds": (seconds or {}).get(name, [1.0] * 9)[seed],
                "protocol": protocol,
                "protocol_label": f"{protocol} ranking",
            }
            for seed in range(len(next(iter(columns.values()))))
        ]
    return {
        "data": data,
        "protocol": protocol,
        "metric": metric,
        "baseline": baseline,
        "models": models,
        "tests": list(tests),
        "varied": varied or {},
    }


def one(name="table2", **facts):
    return {"experiment": name, "title": f"Title of {name}", "seeds": 3, "quick": False} | facts


def swept(name="figure-prior", values=(0.40, 0.41, 0.40, 0.30), **facts):
    """One line over four priors, and a rival."""
    priors = (1e-5, 1e-4, 1e-3, 1e-1)
    rows = {f"pure, prior {p:g}": [v, v + 0.002, v + 0.001] for p, v in zip(priors, values, strict=True)}
    varied = {row: {"line": "pure", "prior": p} for row, p in zip(rows, priors, strict=True)}
    return one(name) | panel(rows | {"bpr": [0.38, 0.381, 0.379]}, baseline="bpr", varied=varied, **facts)


def better(model, difference, p):
    return {"model": model, "difference": difference, "p": p, "p_holm": p, "verdict": "no difference"}


CHARTS = [
    {
        "title": "D of pure",
        "shape": "linear",
        "x": {"title": "epoch", "log": False},
        "y": {"title": "D", "log": True},
        "series": [{"name": "positive", "points": [[0, 0.1], [1, 0.2]], "dashed": False}],
    },
    {
        "title": "Map, pure, users",
        "shape": "points",
        "x": {"title": "first"},
        "y": {"title": "second"},
        "series": [{"name": "real", "points": [[0, 0], [1, 1]]}, {"name": "generated", "points": [[0.5, 0.5]]}],
    },
    {
        "title": "Scores of pure",
        "shape": "steps",
        "x": {"title": "score"},
        "y": {"title": "share"},
        "series": [{"name": "unlabeled", "points": [[-1, 0.5], [0, 0.5], [1, 0]]}],
    },
]
