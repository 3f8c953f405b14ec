"""A Spark Connect server on this machine, for the length of a block.

Spark starts one by itself for `SparkSession.builder.remote("local")`, but always on port 15002,
so that two of them are in each other's way. This one takes a free port of the loopback
interface, and only those who know its token may use it:

    with connect_server("local[2]") as server:
        subprocess.run(program, env=os.environ | server.variables)

It runs in a JVM below this process, which cannot have another Spark meanwhile.
"""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from rocketq.spark import environment

_TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


class ConnectServer(NamedTuple):
    """Where it is, and what a client has to know."""

    url: str
    token: str

    @property
    def variables(self) -> dict[str, str]:
        """For the environment of a program whose Spark this shall be."""
        return {"SPARK_REMOTE": self.url, _TOKEN_VARIABLE: self.token}


@contextmanager
def connect_server(
    master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """Run a server; `settings` are Spark's own."""
    environment.prepare()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    token = uuid.uuid4().hex
    everything = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": environment.quiet_java_options(),
        **(settings or {}),
    }
    conf = SparkConf().setMaster(master).setAppName("rocketq").setAll(list(everything.items()))
    context = SparkContext(conf=conf)
    try:
        SparkSession(context)  # the server's sessions come from it
        jvm: Any = context._jvm
        service = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
        port = getattr(service, "MODULE$").localPort()
        yield ConnectServer(f"sc://localhost:{port}", token)
    finally:
        context.stop()
