"""The native reader, which may be missing: without a compiler the package installs and works all the same."""

from glob import glob

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "rankmuster.evidence._flight_scan",
            sources=sorted(glob("src/native/*.c")),
            depends=sorted(glob("src/native/*.h")),
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden", "-fno-strict-aliasing"],
            py_limited_api=True,
            optional=True,
        )
    ],
    # One wheel for every Python from 3.10.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
