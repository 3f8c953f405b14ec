"""Sum a topic up with Spark, as a stream and as a table, and write the sums to another topic.

rocketq up                                    # in another terminal: NameServer and broker
pip install '.[spark]'                        # in the sources, and Java 17
python examples/spark/city_totals.py [NAMESRV]
"""

import json
import sys
import tempfile

from pyspark.sql import functions as F

from rocketq import Message, Producer
from rocketq.spark import environment

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
SOURCE, TOTALS = "spark-orders", "spark-city-totals"
ORDER = "order long, city string, cents long"

with Producer("spark-example", namesrv=NAMESRV) as producer:
    for number in range(100):
        order = {"order": number, "city": ("Oslo", "Lima")[number % 2], "cents": number}
        producer.send(Message(SOURCE, json.dumps(order).encode(), tags="paid"))

# Any session will do: spark.read.format("rocketq") works wherever the package is installed.
spark = environment.session("city totals")

# A stream: what is there now, in batches of 40 messages, then it ends.
orders = (
    spark.readStream.format("rocketq")
    .option("namesrv", NAMESRV)
    .option("subscribe", SOURCE)
    .option("startingOffsets", "earliest")
    .option("filter", "paid")
    .option("maxOffsetsPerTrigger", "40")
    .load()
    .select(F.from_json(F.col("body").cast("string"), ORDER).alias("order"))
)
totals = orders.groupBy("order.city").agg(F.sum("order.cents").alias("cents"))
with tempfile.TemporaryDirectory() as checkpoint:
    query = (
        totals.writeStream.outputMode("update")
        # Every batch tells the new sums of the cities it has changed.
        .foreachBatch(
            lambda sums, _: (
                sums.select(F.to_json(F.struct("*")).alias("body"), F.col("city").alias("keys"))
                .write.format("rocketq")
                .option("namesrv", NAMESRV)
                .option("topic", TOTALS)
                .mode("append")
                .save()
            )
        )
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

# A table: the same topic, or what was just written, at any time.
spark.sql(
    "CREATE TEMPORARY VIEW totals USING rocketq "
    f"OPTIONS (namesrv '{NAMESRV}', subscribe '{TOTALS}')"
)
spark.sql("SELECT store_timestamp, keys AS city, cast(body AS string) AS total FROM totals").show(
    truncate=False
)
newest = spark.sql(
    "SELECT keys AS city, max_by(get_json_object(cast(body AS string), '$.cents'), queue_offset) "
    "AS cents FROM totals GROUP BY 1 ORDER BY 1"
)
print("totals:", {row["city"]: int(row["cents"]) for row in newest.collect()})
spark.stop()
