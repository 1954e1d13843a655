"""purerec: recommendations from a log of who touched what.

    import purerec as pr

    data = pr.load("ml-100k")                      # or pr.read("clicks.csv")
    split = pr.split(data)
    model = pr.make_model("itempop").fit(split.full_train)
    print(pr.evaluate(model, split))
    model.recommend(["196", "22"], k=10)

Everything below is imported when it is first used, so that `import purerec` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from purerec.errors import PurerecError

if TYPE_CHECKING:
    from purerec.catalog import load as load
    from purerec.comparing import compare as compare
    from purerec.evaluating import Evaluation as Evaluation
    from purerec.evaluating import evaluate as evaluate
    from purerec.interactions import Interactions as Interactions
    from purerec.models import load_model as load_model
    from purerec.models import make_model as make_model
    from purerec.models.base import Recommender as Recommender
    from purerec.models.gmf import GMF as GMF
    from purerec.models.itempop import ItemPop as ItemPop
    from purerec.models.pugmf import PUGMF as PUGMF
    from purerec.models.pure import PURE as PURE
    from purerec.reading import read as read
    from purerec.reading import read_labels as read_labels
    from purerec.splitting import Split as Split
    from purerec.splitting import load_split as load_split
    from purerec.splitting import save_split as save_split
    from purerec.splitting import split as split
    from purerec.training import Run as Run
    from purerec.world import make_world as make_world

__version__ = "0.1.0"

_WHERE = {
    "GMF": "models.gmf",
    "PUGMF": "models.pugmf",
    "PURE": "models.pure",
    "Evaluation": "evaluating",
    "Interactions": "interactions",
    "ItemPop": "models.itempop",
    "Recommender": "models.base",
    "Run": "training",
    "Split": "splitting",
    "compare": "comparing",
    "evaluate": "evaluating",
    "load": "catalog",
    "load_model": "models",
    "load_split": "splitting",
    "make_model": "models",
    "make_world": "world",
    "read": "reading",
    "read_labels": "reading",
    "save_split": "splitting",
    "split": "splitting",
}

__all__ = ["PurerecError", "__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'purerec' has no attribute {name!r}")
    value = getattr(import_module(f"purerec.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
