"""The two compiled parts. Both are optional: where one cannot be built, the same numbers take longer.

A wheel in which neither was built holds Python alone and carries no platform tag; HELDOUT_PURE=1 builds
such a wheel on purpose.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

COMPILED = ("heldout.image._jpeg", "heldout.overlap.images._sums")


class Wheel(bdist_wheel):
    """Tags a wheel by what is in it, not by what was tried."""

    def run(self) -> None:
        if self.distribution.has_ext_modules():
            self.run_command("build_ext")
            built = self.get_finalized_command("build_ext").get_outputs()
            if not any(Path(path).is_file() for path in built):
                self.distribution.ext_modules = []
                self.root_is_pure, self.py_limited_api = True, False
        super().run()


extensions = [
    Extension(
        name,
        [f"src/{name.replace('.', '/')}.c"],
        optional=True,
        py_limited_api=True,
        extra_compile_args=["-O3"],
    )
    for name in COMPILED
]
pure = os.environ.get("HELDOUT_PURE") == "1"
setup(
    ext_modules=[] if pure else extensions,
    cmdclass={"bdist_wheel": Wheel},
    options={} if pure else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
