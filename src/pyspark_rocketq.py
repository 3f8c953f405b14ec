"""Found by Spark itself: modules named `pyspark_*` may bring a data source."""

from rocketq.spark.data_source import RocketqDataSource as DefaultSource

__all__ = ["DefaultSource"]
