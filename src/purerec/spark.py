"""Fit a model on a Spark DataFrame, make lists for a Spark DataFrame of users, and evaluate (extra `spark`).

    model = purerec.spark.fit(clicks, out="model", model="pure", workers=4)
    lists = purerec.spark.recommend(model, users, k=10)
    lists.write.parquet("lists")

Spark starts the workers that fit (`TorchDistributor`), make lists (`mapInArrow`) and evaluate; if one of them dies,
Spark retries its part of the work. `out` is a folder that all machines can see.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec.errors import ConfigError, DataError, MissingExtraError, PurerecError, WorkerError
from purerec.models.contract.recommender import Recommender
from purerec.storage.paths import AnyPath

if TYPE_CHECKING:
    from purerec.data.splits import Split
    from purerec.evaluation.protocols import Evaluation

_COLUMNS = ("user", "item", "rating", "timestamp")


def fit(
    dataframe: Any, *, out: AnyPath, model: str = "pure", workers: int = 2, seed: int = 0, **settings: Any
) -> Recommender:
    """Fit a model (gmf, pugmf, pure, ials or ease) with `workers` concurrent Spark tasks and write it to a folder.

    `dataframe` has the columns user and item, and may have rating and timestamp; `settings` are those of the model.
    """
    from purerec.models.registry import SHARED, load_model, make_model

    torch = _distributor()
    if missing := [name for name in _COLUMNS[:2] if name not in dataframe.columns]:
        raise DataError(f"the DataFrame has no column {missing[0]!r}; rename one: df.withColumnRenamed(...)")
    if model not in SHARED:
        raise ConfigError(f"{model} is fitted by one process: purerec.make_model({model!r}).fit(...)")
    make_model(model, **settings)  # reports wrong settings here, not in a worker
    target = Path(out).absolute()
    place = target.with_name(f".purerec-spark-{uuid.uuid4().hex[:12]}")
    told = {"model": model, "settings": settings, "seed": seed, "out": str(target), "place": str(place)}
    try:
        rows = dataframe.select([name for name in _COLUMNS if name in dataframe.columns])
        rows.write.parquet(str(place / "data"))
        said = torch(num_processes=workers, local_mode=False, use_gpu=False).run(_worker, told)
    except PurerecError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise WorkerError(f"Spark could not run {workers} workers ({why}); see the log of the failed task") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if said:
        raise DataError(said)
    return load_model(target)


def _distributor() -> Any:
    try:
        from pyspark.ml.torch.distributor import TorchDistributor
    except ImportError:
        raise MissingExtraError("pyspark", "spark", purpose="fitting by Spark") from None
    return TorchDistributor


def _worker(told: dict[str, Any]) -> str:
    """One worker of a fit, started by torchrun. The first returns any error in the data or settings."""
    os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    from purerec.data.readers import read
    from purerec.engines.distributed.group import connect, sharing_with
    from purerec.engines.distributed.helping import serve
    from purerec.models.registry import make_model
    from purerec.training.run import Run

    group, said = connect(), ""
    if group.rank:
        serve(group)
        group.close()
        return ""
    # A task that Spark restarts continues from the checkpoint, which belongs to this run alone.
    run = Run(checkpoint=Path(told["place"], "checkpoint"), resume=True)
    try:
        with sharing_with(group):
            fitted = make_model(told["model"], **told["settings"])
            fitted.fit(read(Path(told["place"], "data")), seed=told["seed"], run=run)
            fitted.save(told["out"])
    except WorkerError:
        raise  # Spark restarts all of them
    except PurerecError as error:
        said = str(error)
    group.tell({"do": "end"})
    group.close()
    return said


def recommend(model: Recommender | AnyPath, users: Any, k: int = 10, **options: Any) -> Any:
    """The best items for the users in the first column of a DataFrame, as a DataFrame; see
    `Recommender.recommend`."""
    try:
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
    except ImportError:
        raise MissingExtraError("pyspark", "spark", purpose="lists by Spark") from None
    import pyarrow as pa

    from purerec.models.registry import load_model

    fitted = model if isinstance(model, Recommender) else load_model(model)
    example = fitted.recommend([fitted.users[0]], 1, **options).to_arrow().schema
    plain = pa.schema([(field.name, _plain(field.type)) for field in example])
    schema = from_arrow_schema(plain)
    columns, shared = to_arrow_schema(schema), users.sparkSession.sparkContext.broadcast(fitted)

    def lists(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(0).to_pylist()
            for found in shared.value.recommend_blocks(ids, k, **options) if ids else ():
                yield from found.to_arrow().cast(columns).to_batches()

    return users.mapInArrow(lists, schema)


def evaluate(model: Recommender | AnyPath, split: Split, session: Any, **how: Any) -> Evaluation:
    """The same result as `purerec.evaluate`, to the last digit, measured by the tasks of a Spark session."""
    from purerec.evaluation.parts import put_together
    from purerec.evaluation.protocols import evaluate as measure
    from purerec.models.registry import load_model

    fitted = model if isinstance(model, Recommender) else load_model(model)
    n_users = split.train.n_users
    measure(fitted, split, part=(0, n_users), **how)  # reports wrong use here, not in a task
    spark = session.sparkContext
    n_parts, shared = spark.defaultParallelism, spark.broadcast((fitted, split))

    def part(number: int) -> Evaluation:
        return measure(*shared.value, part=(number, n_parts), threads=1, **how)

    return put_together(spark.parallelize(range(n_parts), n_parts).map(part).collect(), n_users)


def _plain(kind: Any) -> Any:
    """Spark has only one string type."""
    import pyarrow as pa

    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return pa.string() if is_text else kind
