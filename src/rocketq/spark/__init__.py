"""Topics as tables and streams in PySpark.

    spark = rocketq.spark.environment.session("orders")
    spark.readStream.format("rocketq").option("namesrv", "...").option("subscribe", "orders")

Nothing but Spark's own Python data source: no jar. Options and columns are in docs/spark.md.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make the format `rocketq` known to a session that does not find it by itself.

    Spark looks for it in the Python of its workers (the module `pyspark_rocketq` is for that), so
    this is rarely needed. Where their Python does not have this package nothing would work, and
    that is an error which says so.
    """
    from rocketq.spark import environment
    from rocketq.spark.data_source import RocketqDataSource

    if environment.finds_format(spark, RocketqDataSource.name()):
        return
    environment.check_workers(spark)
    spark.dataSource.register(RocketqDataSource)
