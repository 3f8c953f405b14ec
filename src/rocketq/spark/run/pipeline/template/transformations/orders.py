"""The topic, cleaned: one row an order, what is not an order left out."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table(comment="Orders as they come, cleaned.")
def orders() -> DataFrame:
    messages = (
        spark.readStream.format("rocketq")
        .option("namesrv", spark.conf.get("spark.rocketq.namesrv"))
        .option("subscribe", spark.conf.get("spark.rocketq.source"))
        .option("startingOffsets", "earliest")
        # Lag of this group shows in `rocketq admin consumerProgress` and in consoles.
        .option("groupId", "orders-pipeline")
        .option("columns", "body,msg_id,store_timestamp")
        .load()
    )
    fields = "order long, city string, cents long, ordered_at timestamp"
    parsed = messages.select("*", F.from_json(F.col("body").cast("string"), fields).alias("o"))
    return parsed.select("o.*", "msg_id", "store_timestamp").where(
        "order IS NOT NULL AND city <> '' AND cents > 0 AND ordered_at IS NOT NULL"
    )
