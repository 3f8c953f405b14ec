"""Declarative pipelines of Spark (`spark-pipelines`) on topics.

`init` writes a small project that works; `run` runs one with Java, Python and packages as they
have to be. The project itself is Spark's own, and `spark-pipelines run` runs it as well where
everything is set up.
"""

from rocketq.spark.run.pipeline.project import ProjectExists, init
from rocketq.spark.run.pipeline.runner import NoProject, run

__all__ = ["NoProject", "ProjectExists", "init", "run"]
