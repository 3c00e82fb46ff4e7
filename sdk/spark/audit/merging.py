"""Merge the facts of many runs as if one run had recorded them, which keeps an hourly audit fast."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame as Frame
from pyspark.sql import functions as f

from kafkawire.sdk.spark.audit.facts import FACTS, NOTED_RUN, FactKind
from kafkawire.sdk.spark.audit.key_tables import keys_of_partitions
from kafkawire.sdk.spark.audit.log_tables import last_damage, minute_sums, sound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RUNS_MAX", "merged"]

#: The maximum number of runs whose facts are kept separate; each run adds one file per task.
RUNS_MAX: Final = 16


def merged(facts: DataFrame) -> DataFrame:
    """Return facts as one run would have recorded them, without duplicates from several runs.

    Facts about batches keep the number of the run that recorded them.

    Args:
        facts: the wide table, with the number of the run.
    """

    def of(kind: FactKind) -> DataFrame:
        return facts.where(f.col("kind") == str(kind))

    keys = keys_of_partitions(of(FactKind.KEY), f.max("lastOffset").alias("lastOffset")).select("*", "last.*")
    parts = {
        FactKind.BATCH: sound(of(FactKind.BATCH)).unionByName(
            last_damage(of(FactKind.BATCH)), allowMissingColumns=True
        ),
        FactKind.KEY: keys,
        FactKind.MINUTE: minute_sums(of(FactKind.MINUTE)),
        FactKind.COMMIT: of(FactKind.COMMIT),
    }
    wide = [_wide(part, kind) for kind, part in parts.items()]
    return reduce(Frame.unionByName, wide)


def _wide(part: DataFrame, kind: FactKind) -> DataFrame:
    columns = [
        f.col(name) if name in part.columns else f.lit(None).cast(ddl).alias(name) for name, (ddl, _) in FACTS.items()
    ]
    run = f.col("run") if "run" in part.columns else f.lit(None).cast("int")
    return part.select(f.lit(str(kind)).alias("kind"), *columns, run.alias(NOTED_RUN))
