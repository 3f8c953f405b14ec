"""Every finished hour as a message: {"hour": ..., "city": ..., "orders": ..., "cents": ...}"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

dp.create_sink(
    "result_topic",
    "rocketq",
    {
        "namesrv": spark.conf.get("spark.rocketq.namesrv") or "",
        "topic": spark.conf.get("spark.rocketq.result") or "",
    },
)


@dp.append_flow(target="result_topic")
def publish_totals() -> DataFrame:
    return spark.readStream.table("hourly_totals").select(
        F.to_json(F.struct("hour", "city", "orders", "cents")).alias("body"),
        F.lit("hourly").alias("tags"),
        F.col("city").alias("keys"),
        F.col("city").alias("sharding_key"),  # one city, one queue, in order
    )
