"""The two compiled parts. Both are optional: where one cannot be built, the same numbers take longer."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            name,
            [f"src/{name.replace('.', '/')}.c"],
            optional=True,
            py_limited_api=True,
            extra_compile_args=["-O3"],
        )
        for name in ("heldout.image._jpeg", "heldout.overlap.fingerprints._sums")
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
