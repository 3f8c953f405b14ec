"""The topic as it comes, and of it the orders; what is not an order goes to a table of its own."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

FIELDS = "order long, city string, cents long, ordered_at timestamp"
COLUMNS = ("order", "city", "cents", "ordered_at", "msg_id", "store_timestamp")
IS_ORDER = "order IS NOT NULL AND city <> '' AND cents > 0 AND ordered_at IS NOT NULL"


@dp.table(comment="All messages, with what their bodies say.")
def received() -> DataFrame:
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
    parsed = messages.select("*", F.from_json(F.col("body").cast("string"), FIELDS).alias("o"))
    return parsed.select("o.*", "msg_id", "store_timestamp", "body").withColumn(
        "is_order", F.coalesce(F.expr(IS_ORDER), F.lit(False))
    )


@dp.table(comment="Orders as they come.")
def orders() -> DataFrame:
    return spark.readStream.table("received").where("is_order").select(*COLUMNS)


# `rocketq pipeline run` says how many rows the tables named rejected_* have got.
@dp.table(comment="Messages that are not orders, to be looked at.")
def rejected_orders() -> DataFrame:
    return spark.readStream.table("received").where("NOT is_order").select(*COLUMNS, "body")
