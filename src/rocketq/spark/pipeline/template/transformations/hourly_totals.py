"""Sums by hour and city. An hour is written when no more orders can come for it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(comment="Orders by hour and city; hours that are over.")
def hourly_totals() -> DataFrame:
    # Orders that come more than ten minutes late are left out.
    recent = spark.readStream.table("orders").withWatermark("ordered_at", "10 minutes")
    return (
        recent.groupBy(F.window("ordered_at", "1 hour").alias("hour"), "city")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .select(F.col("hour.start").alias("hour"), "city", "orders", "cents")
    )
