"""purerec: recommendations from a log of who touched what.

    import purerec as pr

    data = pr.load("ml-100k")                      # or pr.read("clicks.csv")
    split = pr.split(data)
    model = pr.PURE().fit(split.full_train, seed=0)
    print(pr.evaluate(model, split))
    model.recommend(["196", "22"], k=10)

    data       load, read, read_labels, read_items, ingest (files larger than memory), make_world, Interactions
    splits     split, given_split, Split, save_split, load_split
    models     a class for each of the eighteen methods; make_model by name, load_model from a folder;
               Recommender (what they have in common), Run (progress, limits and checkpoints of a fit)
    results    evaluate and compare, which return an Evaluation and a Comparison; evaluate_by, per group; metrics, as
               functions of ranks
    settings   tune, which returns a Tuned
    your own   register, register_metric, register_reader: models, metrics and file formats of your own

Everything below is imported when it is first used, so that `import purerec` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from purerec.errors import PurerecError

if TYPE_CHECKING:
    from purerec.data.catalog import load as load
    from purerec.data.given import given_split as given_split
    from purerec.data.interactions import Interactions as Interactions
    from purerec.data.items.reading import read_items as read_items
    from purerec.data.plugins.readers import register_reader as register_reader
    from purerec.data.readers import read as read
    from purerec.data.readers import read_labels as read_labels
    from purerec.data.splits import Split as Split
    from purerec.data.splits import split as split
    from purerec.data.synthetic.world import make_world as make_world
    from purerec.evaluation import metrics as metrics
    from purerec.evaluation.groups import evaluate_by as evaluate_by
    from purerec.evaluation.own import register_metric as register_metric
    from purerec.evaluation.protocols import Evaluation as Evaluation
    from purerec.evaluation.protocols import evaluate as evaluate
    from purerec.experiments.compare import compare as compare
    from purerec.experiments.results import Comparison as Comparison
    from purerec.models.bpr import BPR as BPR
    from purerec.models.cfgan import CFGAN as CFGAN
    from purerec.models.coclustering import CoClustering as CoClustering
    from purerec.models.contract.recommender import Recommender as Recommender
    from purerec.models.ease import EASE as EASE
    from purerec.models.gmf import GMF as GMF
    from purerec.models.graphgan import GraphGAN as GraphGAN
    from purerec.models.ials import IALS as IALS
    from purerec.models.irgan import IRGAN as IRGAN
    from purerec.models.itemknn import ItemKNN as ItemKNN
    from purerec.models.itempop import ItemPop as ItemPop
    from purerec.models.lambdafm import LambdaFM as LambdaFM
    from purerec.models.multvae import MultVAE as MultVAE
    from purerec.models.nmf import NMF as NMF
    from purerec.models.pmf import PMF as PMF
    from purerec.models.pugmf import PUGMF as PUGMF
    from purerec.models.pure import PURE as PURE
    from purerec.models.registry import load_model as load_model
    from purerec.models.registry import make_model as make_model
    from purerec.models.registry import register as register
    from purerec.models.slopeone import SlopeOne as SlopeOne
    from purerec.models.svd import SVD as SVD
    from purerec.storage.ingest.ingest import ingest as ingest
    from purerec.storage.splits import load_split as load_split
    from purerec.storage.splits import save_split as save_split
    from purerec.training.run import Run as Run
    from purerec.tuning.prior import estimate_prior as estimate_prior
    from purerec.tuning.search import Tuned as Tuned
    from purerec.tuning.tune import tune as tune

__version__ = "0.1.0"

_WHERE = {
    "BPR": "models.bpr",
    "CFGAN": "models.cfgan",
    "CoClustering": "models.coclustering",
    "EASE": "models.ease",
    "GMF": "models.gmf",
    "GraphGAN": "models.graphgan",
    "IALS": "models.ials",
    "IRGAN": "models.irgan",
    "ItemKNN": "models.itemknn",
    "ItemPop": "models.itempop",
    "LambdaFM": "models.lambdafm",
    "MultVAE": "models.multvae",
    "NMF": "models.nmf",
    "PMF": "models.pmf",
    "PUGMF": "models.pugmf",
    "PURE": "models.pure",
    "SVD": "models.svd",
    "SlopeOne": "models.slopeone",
    "Comparison": "experiments.results",
    "Evaluation": "evaluation.protocols",
    "Interactions": "data.interactions",
    "Recommender": "models.contract.recommender",
    "Run": "training.run",
    "Split": "data.splits",
    "Tuned": "tuning.search",
    "compare": "experiments.compare",
    "estimate_prior": "tuning.prior",
    "evaluate": "evaluation.protocols",
    "evaluate_by": "evaluation.groups",
    "given_split": "data.given",
    "ingest": "storage.ingest.ingest",
    "load": "data.catalog",
    "load_model": "models.registry",
    "load_split": "storage.splits",
    "make_model": "models.registry",
    "make_world": "data.synthetic.world",
    "read": "data.readers",
    "read_items": "data.items.reading",
    "read_labels": "data.readers",
    "register": "models.registry",
    "register_metric": "evaluation.own",
    "register_reader": "data.plugins.readers",
    "save_split": "storage.splits",
    "split": "data.splits",
    "tune": "tuning.tune",
}

_MODULES = {"metrics": "evaluation.metrics"}

__all__ = ["PurerecError", "__version__", *sorted(_WHERE | _MODULES)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"purerec.{_MODULES[name]}")
    elif name in _WHERE:
        value = getattr(import_module(f"purerec.{_WHERE[name]}"), name)
    else:
        raise AttributeError(f"module 'purerec' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
