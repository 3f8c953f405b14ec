"""Run first by each Python that Spark starts on this machine (see `environment.prepare`).

Spark has its workers import pyspark from a zip file, and what comes out of a zip file is compiled
anew in every process: a second each time, and the first query starts half a dozen. Where the zip
file is part of an installed pyspark, that one is the same and is kept compiled.
"""

import importlib
import sys
from pathlib import Path


def is_needless(entry: str) -> bool:
    """Whether a place to import from is the zip file of a pyspark that is found without it."""
    zip_file = Path(entry)
    if zip_file.parts[-4:] != ("pyspark", "python", "lib", "pyspark.zip"):
        return False
    return str(zip_file.parents[3]) in sys.path


here = str(Path(__file__).parent)
this = sys.modules.pop("sitecustomize")
sys.path[:] = [entry for entry in sys.path if entry != here and not is_needless(entry)]
try:
    importlib.import_module("sitecustomize")  # the one that this was found instead of
except ModuleNotFoundError:
    sys.modules["sitecustomize"] = this
