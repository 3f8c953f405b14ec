"""All columns of the matrix, from left to right."""

from peers import clients, hand_over, mixed, spark, tools

COLUMNS = [
    *clients.COLUMNS,
    *tools.COLUMNS,
    *hand_over.COLUMNS,
    *mixed.COLUMNS,
    *spark.COLUMNS,
]
