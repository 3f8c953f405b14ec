"""Compiles the hot leaf modules where that can be done; the same sources run uncompiled.

Each hot module is one readable .py file in Cython's pure-Python mode. The compiler is tried
first: without one, nothing is compiled, and one line says so. All modules are compiled or none,
because they use each other's C classes.

    ROCKETQ_PURE=1 pip install .     compile nothing
    ROCKETQ_PURE=0 pip install .     fail rather than install uncompiled
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HOT_MODULES: list[str] = [
    "rocketq.broker.processor.pull",
    "rocketq.broker.processor.plain_send",
    "rocketq.client.producer.batch_item",
    "rocketq.client.producer.quick_send",
    "rocketq.client.producer.result",
    "rocketq.common.buffers",
    "rocketq.common.json.dialect",
    "rocketq.message.record.batch",
    "rocketq.message.record.checksum",
    "rocketq.message.hashing",
    "rocketq.message.ids",
    "rocketq.message.message",
    "rocketq.message.properties.walk",
    "rocketq.message.record.writer",
    "rocketq.message.record.reader",
    "rocketq.proxy.http2.connection",
    "rocketq.proxy.http2.hpack",
    "rocketq.remoting.wire.command",
    "rocketq.remoting.link.alertness",
    "rocketq.remoting.link.connection",
    "rocketq.remoting.link.handling",
    "rocketq.remoting.link.meter",
    "rocketq.remoting.hot.pull",
    "rocketq.remoting.hot.send",
    "rocketq.remoting.hot.signed",
    "rocketq.remoting.wire.frame",
    "rocketq.remoting.wire.scan",
    "rocketq.remoting.wire.json_header",
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

# Cython's own helpers (memory views, functions), compiled once instead of into every module.
SHARED_MODULE = "rocketq.common.cython_helpers"

CYTHON_FOLDER = "build/cython"
# Where a source distribution carries the C files, so that installing it needs no Cython run.
SHIPPED_FOLDER = "cython_c"

# Modules that move Python objects about rather than bytes: they execute as many instructions
# at -O1 as at -O2 (within 3 %, counted with callgrind), and compile in two thirds of the time.
LEAN_MODULES = {
    "rocketq.broker.processor.plain_send",
    "rocketq.broker.processor.pull",
    "rocketq.client.producer.result",
    "rocketq.message.message",
    "rocketq.message.record.batch",
    "rocketq.proxy.http2.connection",
    "rocketq.remoting.link.handling",
    "rocketq.remoting.link.meter",
    "rocketq.store.results",
    SHARED_MODULE,
}

DIRECTIVES = {
    "boundscheck": False,
    "wraparound": False,
    "embedsignature": True,
    "annotation_typing": True,
}


def path_of(module: str, suffix: str) -> str:
    return module.replace(".", "/") + suffix


def extension(name: str, sources: list[str]) -> Extension:
    level = "-O1" if name in LEAN_MODULES else "-O2"
    return Extension(name, sources, extra_compile_args=[level, "-g0"])


def all_modules() -> list[str]:
    return [*HOT_MODULES, SHARED_MODULE]


def cythonized() -> list[Extension]:
    """The modules as C files, in as many processes as there are cores."""
    from Cython.Build import cythonize

    wanted = [extension(name, [f"src/{path_of(name, '.py')}"]) for name in HOT_MODULES]
    shared = extension(SHARED_MODULE, [])
    return cythonize(
        [*wanted, shared],
        language_level=3,
        build_dir=CYTHON_FOLDER,
        shared_utility_qualified_name=SHARED_MODULE,
        nthreads=os.cpu_count() or 1,
        compiler_directives=DIRECTIVES,
    )


def shipped() -> list[Extension] | None:
    """The C files of a source distribution, where this is one."""
    folder = Path(SHIPPED_FOLDER)
    if not all((folder / path_of(name, ".c")).exists() for name in all_modules()):
        return None
    return [extension(name, [f"{SHIPPED_FOLDER}/{path_of(name, '.c')}"]) for name in all_modules()]


class BuildHotModules(build_ext):
    """Compiles all of them, or leaves all uncompiled."""

    def run(self) -> None:
        if os.environ.get("ROCKETQ_PURE") == "1":
            self.extensions = []
            return
        began = time.monotonic()
        try:
            self._try_compiler()
            say(f"compiling {len(HOT_MODULES)} modules on {os.cpu_count()} cores")
            self._compile(shipped() or cythonized())
        except Exception as error:
            # Setuptools raises plain OSErrors past its own "optional" when there is no compiler.
            if os.environ.get("ROCKETQ_PURE") == "0":
                raise
            self._leave_uncompiled(error)
        else:
            say(f"compiled in {time.monotonic() - began:.0f} s")

    def _try_compiler(self) -> None:
        """Compile one line with Python's headers; raises what is in the way."""
        from setuptools._distutils.ccompiler import new_compiler
        from setuptools._distutils.sysconfig import customize_compiler

        compiler = new_compiler(verbose=0)
        customize_compiler(compiler)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "try.c")
            source.write_text("#include <Python.h>\nint rocketq_try(void) { return 0; }\n")
            compiler.compile([str(source)], output_dir=folder, include_dirs=self.include_dirs)

    def _compile(self, extensions: list[Extension]) -> None:
        """Hand them to the ordinary command, which takes its list once and for all at first."""
        self.distribution.ext_modules = extensions
        builder = build_ext(self.distribution)
        for option in ("inplace", "editable_mode", "build_lib", "build_temp", "force", "debug"):
            setattr(builder, option, getattr(self, option))
        builder.parallel = os.cpu_count() or 1
        builder.ensure_finalized()
        builder.run()
        self.extensions, self.ext_map = builder.extensions, builder.ext_map

    def _leave_uncompiled(self, error: Exception) -> None:
        for name in all_modules():
            Path(self.get_ext_fullpath(name)).unlink(missing_ok=True)
        self.extensions = []
        say(
            f"warning: not compiled, so it will run several times slower ({error}). "
            "Install a C compiler and Python's headers, then install again."
        )


class SourceDistribution(sdist):
    """Carries the C files along."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for each in cythonized():
            target = Path(base_dir, SHIPPED_FOLDER, path_of(each.name, ".c"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each.sources[0], target)


def say(text: str) -> None:
    print(f"rocketq: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    declared = [] if os.environ.get("ROCKETQ_PURE") == "1" else [Extension(SHARED_MODULE, [])]
    setup(
        # What there is to compile is found out when it is compiled; that there is something
        # has to be known before, for the name of a wheel.
        ext_modules=declared,
        cmdclass={"build_ext": BuildHotModules, "sdist": SourceDistribution},
    )
