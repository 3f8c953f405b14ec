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
    "rocketq.broker.processor.plain_send",
    "rocketq.client.producer.send_frames",
    "rocketq.client.producer.quick_send",
    "rocketq.client.producer.result",
    "rocketq.common.buffers",
    "rocketq.common.dialect",
    "rocketq.message.record.batch",
    "rocketq.message.record.checksum",
    "rocketq.message.hashing",
    "rocketq.message.ids",
    "rocketq.message.message",
    "rocketq.message.properties.walk",
    "rocketq.message.record.writer",
    "rocketq.message.record.reader",
    "rocketq.remoting.wire.command",
    "rocketq.remoting.link.connection",
    "rocketq.remoting.link.handling",
    "rocketq.remoting.wire.entry_values",
    "rocketq.remoting.hot.headers",
    "rocketq.remoting.hot.replies",
    "rocketq.remoting.wire.frame",
    "rocketq.remoting.wire.scan",
    "rocketq.remoting.wire.json_head",
    "rocketq.spark.write.encoder",
    "rocketq.spark.read.columns",
    "rocketq.store.log.append",
    "rocketq.store.dispatch",
    "rocketq.store.index.index_file",
    "rocketq.store.message_inner",
    "rocketq.store.queues.queue_tail",
    "rocketq.store.queues.reader",
    "rocketq.store.durability.replay",
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
