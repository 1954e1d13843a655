"""A Spark DataFrame to a model folder and back to lists, on the test's own Spark."""

import os
import shutil
import sys

import numpy as np
import polars as pl
import pytest

import purerec as pr
from conftest import ROOT, lacking, need
from purerec import spark
from purerec.engines.distributed.group import Group, sharing_with
from purerec.errors import ConfigError, DataError, MissingExtraError

pytestmark = pytest.mark.slow
SETTINGS = {"epochs": 8, "dim": 4}
WORKERS = 2
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a minute's work: optimising the Java code would take longer than running it"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    need("pyspark")
    need("torch")
    if shutil.which("java") is None:
        lacking("Java is not installed")
    from pyspark.sql import SparkSession

    place = tmp_path_factory.mktemp("spark")
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    running = (
        SparkSession.builder.master(f"local[{WORKERS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(place / "local"))
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.codegen.wholeStage", "false")
        .getOrCreate()
    )
    running.sparkContext.setLogLevel("ERROR")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 1500)
    return pr.Interactions.from_columns(
        [f"u{u}" for u in user], [f"i{2 * i + u % 2}" for i, u in zip(rng.integers(0, 20, 1500), user, strict=True)]
    )


@pytest.mark.filterwarnings("ignore")  # Spark's own
def test_from_a_dataframe_to_a_model_and_back_to_lists(session, log, tmp_path):
    rows = list(zip(log.users.take(log.user_idx).to_list(), log.items.take(log.item_idx).to_list(), strict=True))
    model = spark.fit(
        session.createDataFrame(rows, ["user", "item"]),
        out=tmp_path / "m",
        model="pugmf",
        workers=WORKERS,
        **SETTINGS,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]

    group = Group()
    group.shards = WORKERS
    with sharing_with(group):
        alone = pr.make_model("pugmf", **SETTINGS).fit(log, seed=0)
    assert np.array_equal(model.score([0, 5]), alone.score([0, 5]))

    everybody = session.createDataFrame([(user,) for user in log.users], ["user"]).repartition(3)
    found = spark.recommend(tmp_path / "m", everybody, k=5)
    here = pl.from_arrow(found.toArrow()).sort("user", "rank")
    expected = model.recommend(k=5).sort("user", "rank")
    assert here.columns == expected.columns
    for name in ("user", "item", "rank"):
        assert here[name].to_list() == expected[name].to_list()
    np.testing.assert_allclose(here["score"], expected["score"], rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_evaluation_has_the_digits_of_one_process(session, log):
    split = pr.split(log, "ratio")
    model = pr.make_model("pugmf", **SETTINGS).fit(split.full_train, seed=0)
    found, alone = spark.evaluate(model, split, session, seed=3), pr.evaluate(model, split, seed=3)
    assert found.metrics == alone.metrics
    assert np.array_equal(found.user_idx, alone.user_idx)
    with pytest.raises(DataError, match="would be inflated"):
        spark.evaluate(model, pr.split(log, "ratio", seed=1), session)


@pytest.mark.filterwarnings("ignore")
def test_wrong_use_is_told_before_any_work(session, tmp_path):
    rows = session.createDataFrame([("a", "b")], ["user", "thing"])
    with pytest.raises(DataError, match="no column 'item'"):
        spark.fit(rows, out=tmp_path / "m")
    rows = rows.withColumnRenamed("thing", "item")
    with pytest.raises(ConfigError, match="bpr is fitted by one process"):
        spark.fit(rows, out=tmp_path / "m", model="bpr")
    with pytest.raises(ConfigError, match="dimm"):
        spark.fit(rows, out=tmp_path / "m", model="pugmf", dimm=4)
    assert list(tmp_path.iterdir()) == []


def test_without_spark_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.ml.torch.distributor", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql.pandas.types", None)
    with pytest.raises(MissingExtraError, match=r"purerec\[spark\]"):
        spark.fit(None, out="m")
    with pytest.raises(MissingExtraError, match=r"purerec\[spark\]"):
        spark.recommend("m", None)
