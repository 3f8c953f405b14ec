"""Compiles the hot leaf modules when that can be done; the same sources run uncompiled.

`ROCKETQ_PURE=1` at install time leaves the compiler out. A module that does not
compile is left uncompiled: the installation never fails for want of a compiler.
"""

import os

from setuptools import Extension, setup

# Each is one readable .py file in Cython's pure-Python mode: the same source runs
# both ways, and the tests run on both.
HOT_MODULES: list[str] = [
    "rocketq.broker.processor.pull",
    "rocketq.broker.processor.send_path",
    "rocketq.client.send_frames",
    "rocketq.client.send_path",
    "rocketq.client.send_result",
    "rocketq.message.batch",
    "rocketq.message.checksum",
    "rocketq.message.hashing",
    "rocketq.message.ids",
    "rocketq.message.message",
    "rocketq.message.property_scan",
    "rocketq.message.record",
    "rocketq.message.record_reader",
    "rocketq.remoting.command",
    "rocketq.remoting.connection",
    "rocketq.remoting.dispatch",
    "rocketq.remoting.entry_values",
    "rocketq.remoting.fast_headers",
    "rocketq.remoting.fast_replies",
    "rocketq.remoting.frame",
    "rocketq.remoting.header_scan",
    "rocketq.remoting.json_head",
    "rocketq.spark.batch_rows",
    "rocketq.spark.record_columns",
    "rocketq.store.append",
    "rocketq.store.dispatch",
    "rocketq.store.index_file",
    "rocketq.store.message_inner",
    "rocketq.store.queue_tail",
    "rocketq.store.reader",
    "rocketq.store.replay",
    "rocketq.store.results",
]


def extensions() -> list[Extension]:
    if os.environ.get("ROCKETQ_PURE") == "1":
        return []
    from Cython.Build import cythonize

    return cythonize(
        [
            Extension(
                name,
                [f"src/{name.replace('.', '/')}.py"],
                extra_compile_args=["-O2", "-g0"],
                optional=True,
            )
            for name in HOT_MODULES
        ],
        language_level=3,
        build_dir="build/cython",
        annotate=False,
        compiler_directives={
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
            "annotation_typing": True,
        },
    )


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
