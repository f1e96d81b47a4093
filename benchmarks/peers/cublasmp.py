#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says why cuBLASMp is not among the peers. Without torch."""

import ctypes.util
import os
import site
import sys
from pathlib import Path

NAMES = "libcublasmp.so*", "libcublasMp.so*"


def libraries():
    """Where it is installed: for the loader, as CUBLASMP_HOME says, or in one of Python's packages."""
    found = [ctypes.util.find_library(name) for name in ("cublasmp", "cublasMp")]
    roots = [Path(os.environ["CUBLASMP_HOME"])] if "CUBLASMP_HOME" in os.environ else []
    packages = {Path(folder) for folder in (*site.getsitepackages(), *sys.path) if folder}
    roots += [root for folder in packages for root in sorted((folder / "nvidia").glob("*"))]
    found += [str(path) for root in roots for name in NAMES for path in sorted(root.glob(f"lib*/{name}"))]
    return [path for path in dict.fromkeys(found) if path]


def reason():
    found = libraries()
    return f"installed ({found[0]}), but there is no driver for it here" if found else "it is not installed"


if __name__ == "__main__":
    print(reason())
