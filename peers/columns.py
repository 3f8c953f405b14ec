"""All columns of the matrix, from left to right."""

from peers import clients, hand_over, mixed, replication, spark, tools

COLUMNS = [
    *clients.COLUMNS,
    *tools.COLUMNS,
    *hand_over.COLUMNS,
    *mixed.COLUMNS,
    *replication.COLUMNS,
    *spark.COLUMNS,
]
