"""All columns of the matrix, from left to right."""

from peers import clients, elected, hand_over, mixed, replication, security, spark, tools
from peers.grpc import columns as grpc

COLUMNS = [
    *clients.COLUMNS,
    *tools.COLUMNS,
    *security.COLUMNS,
    *hand_over.COLUMNS,
    *mixed.COLUMNS,
    *replication.COLUMNS,
    *elected.COLUMNS,
    *spark.COLUMNS,
    *grpc.COLUMNS,
]
