"""Topics as tables and streams in PySpark.

    rocketq.spark.register(spark)
    spark.readStream.format("rocketq").option("namesrv", "...").option("subscribe", "orders")

Nothing but Spark's own Python data source: no jar. Options and columns are in docs/spark.md.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make the format `rocketq` known to a session.

    Where Spark looks for sources by itself (the module `pyspark_rocketq` is for that) it does
    no harm.
    """
    from rocketq.spark.data_source import RocketqDataSource

    spark.dataSource.register(RocketqDataSource)
