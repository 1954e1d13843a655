"""MLflow: what a fit logs, and loading the model back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import purerec as pr
from cli.conftest import Command, clicks, command
from conftest import need

__all__ = ["clicks", "command"]


def test_without_mlflow_one_line_names_the_extra(
    command: Command, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    done = command("fit", clicks, "--model", "itempop", "--mlflow", "--out", "m")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: logging to MLflow needs mlflow; install it with: pip install 'purerec[mlflow]'\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # MLflow's warnings are not ours
def test_a_fit_is_logged_and_loaded_back(
    command: Command, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    options = ["--model", "gmf", "--set", "epochs=3", "--split", "ratio", "--metrics", "Recall@20", "--mlflow"]
    done = command("fit", clicks, *options, "--out", "m", "--json", "-")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    import mlflow
    import pandas as pd

    from purerec.output.tracking import load_model

    run = mlflow.get_run(told["mlflow_run"])
    assert run.info.run_name == "gmf on clicks"
    assert (run.data.params["epochs"], run.data.params["seed"]) == ("3", "0")
    assert run.data.params["dim"] != "None"  # resolved from the data
    assert run.data.metrics["Recall_at_20"] == pytest.approx(told["metrics"]["Recall@20"])
    curve = mlflow.MlflowClient().get_metric_history(told["mlflow_run"], "loss")
    assert [point.step for point in curve] == [0, 1, 2]
    stored = pr.load_model("m")
    uri = f"runs:/{told['mlflow_run']}/model"
    assert load_model(uri).recommend(["u1"], k=3).equals(stored.recommend(["u1"], k=3))
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # it is not part of the extra
    listed = mlflow.pyfunc.load_model(uri).predict(pd.DataFrame({"user": ["u1", "u2"]}), params={"k": 3})
    assert listed["item"].tolist() == stored.recommend(["u1", "u2"], k=3)["item"].to_list()
