"""Fits in MLflow: settings, curves, metrics and the model, which MLflow loads back. Needs the extra `mlflow`.

`purerec fit --mlflow` logs to wherever MLflow is configured to (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME).

    mlflow.pyfunc.load_model("runs:/RUN/model").predict(pandas.DataFrame({"user": ["196"]}), params={"k": 5})
    purerec.output.tracking.load_model("runs:/RUN/model")       # the Recommender itself
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec import __version__
from purerec.errors import MissingExtraError
from purerec.models.registry import load_model as load_folder

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender
    from purerec.training.history import History

_AT_ONCE = 1000
"""Values that MLflow accepts in one call"""


def check_can_log() -> None:
    """Check that MLflow is installed, before any work is done."""
    _mlflow()


def log_fit(model: Recommender, folder: Path, metrics: Mapping[str, float]) -> str:
    """Log a fitted model that is stored in a folder; return the id of the run."""
    mlflow = _mlflow()
    from mlflow.entities import Metric
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    facts = model.fitted_on
    history: History | None = getattr(model, "history", None)
    curves = [
        Metric(_name(name), float(value), 0, record.epoch)
        for record in (history.records if history is not None else [])
        for name, value in record.values.items()
        if math.isfinite(value)
    ]
    with mlflow.start_run(run_name=f"{model.name} on {facts.name}") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own warnings
        mlflow.set_tags({"purerec.model": model.name, "purerec.data": facts.name, "purerec.version": __version__})
        mlflow.log_params(dict(model.config) | facts.resolved | {"seed": facts.seed})
        for start in range(0, len(curves), _AT_ONCE):
            mlflow.MlflowClient().log_batch(run.info.run_id, curves[start : start + _AT_ONCE])
        mlflow.log_metrics(
            {_name(name): value for name, value in metrics.items()} | {"fit_seconds": facts.fit_seconds}
        )
        mlflow.pyfunc.log_model(
            name="model",
            loader_module=__name__,
            data_path=str(folder),
            pip_requirements=[f"purerec[mlflow]=={__version__}"],
            signature=ModelSignature(
                inputs=Schema([ColSpec("string", "user")]), params=ParamSchema([ParamSpec("k", "long", 10)])
            ),
        )
    return str(run.info.run_id)


def load_model(uri: str) -> Recommender:
    """The model of a run, by an MLflow URI such as runs:/RUN/model."""
    loaded: Recommender = _mlflow().pyfunc.load_model(uri).get_raw_model()
    return loaded


class Recommended:
    """A model as MLflow calls it: from a table with a column `user` to their lists."""

    def __init__(self, model: Recommender) -> None:
        self.model = model

    def get_raw_model(self) -> Recommender:
        """The model itself."""
        return self.model

    def predict(self, table: Any, params: Mapping[str, Any] | None = None) -> Any:
        """`Recommender.recommend`, as a pandas table."""
        import pandas

        lists = self.model.recommend(table["user"].tolist(), k=int((params or {}).get("k", 10)))
        return pandas.DataFrame(lists.to_dict(as_series=False))  # to_pandas needs pyarrow, which the extra lacks


def _load_pyfunc(path: str) -> Recommended:
    """Called by MLflow."""
    return Recommended(load_folder(path))


def _name(metric: str) -> str:
    """MLflow allows neither @ nor brackets in names: P_at_5, D.positive."""
    return metric.replace("@", "_at_").replace("(", ".").replace(")", "")


def _mlflow() -> Any:
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # otherwise it logs how it creates its tables
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
            import mlflow.pyfunc
    except ImportError:
        raise MissingExtraError("mlflow", "mlflow", purpose="logging to MLflow") from None
    return mlflow
