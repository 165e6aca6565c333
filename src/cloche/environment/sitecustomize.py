"""Lets Python import packages that were installed inside a sandbox; build.py copies this file into the environment.

Python imports it at each start.  The sandbox's own packages come before those of the environment, so that a newer
version of a library replaces the installed one.  Python itself leaves out a folder that does not exist yet, and
remembers that; the finder that is made here looks again at each import.  So a program can install a package and import
it at once.

pip treats a virtual environment as one that it can write to: there, it neither replaces nor removes packages of the
user.  The environment is read-only, so here Python has the prefix of the interpreter.
"""

import os
import site
import sys
from _frozen_importlib_external import FileFinder, _get_supported_file_loaders  # type: ignore[attr-defined]


def put_own_packages_first() -> None:
    """Put the sandbox's own packages on `sys.path`, before those of the environment."""
    own, environment = site.getusersitepackages(), os.path.dirname(__file__)
    if own in sys.path:
        if environment not in sys.path or sys.path.index(own) < sys.path.index(environment):
            return  # a virtual environment that sees both
        sys.path.remove(own)
    sys.path.insert(sys.path.index(environment) if environment in sys.path else len(sys.path), own)
    if sys.path_importer_cache.get(own) is None:
        sys.path_importer_cache[own] = FileFinder(own, *_get_supported_file_loaders())


if sys.orig_argv[1:4] == ["-m", "pip", "install"] and os.access("/opt/bin/pip", os.X_OK):  # as %pip does it
    os.execv("/opt/bin/pip", ["/opt/bin/pip", *sys.orig_argv[3:]])
if __file__.startswith(f"{sys.prefix}/"):  # not in a virtual environment that sees this one
    sys.prefix, sys.exec_prefix = sys.base_prefix, sys.base_exec_prefix
if site.ENABLE_USER_SITE:  # not with -s or -I, and not in a virtual environment without the system's packages
    put_own_packages_first()
