"""Finds the repository that Maven uses by default, or the mirror that the user's settings put in its place.

No command of Maven prints it without a download.  The settings are files of XML, and the default is in a model that is
a part of Maven.
"""

from __future__ import annotations

import glob
import os
import re
from shutil import which
from zipfile import BadZipFile, ZipFile

_MOST = 1 << 20
_MODEL = "org/apache/maven/model/pom-4.0.0.xml"
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MIRROR = re.compile(r"<mirror>.*?<url>\s*([^<\s]+)\s*</url>.*?</mirror>", re.DOTALL)
_URL = re.compile(r"<repository>.*?<url>\s*([^<\s]+)\s*</url>", re.DOTALL)


def address() -> str:
    """The address of the repository; empty if this host has no Maven."""
    program = which("mvn")
    if program is None:
        return ""
    home = os.environ.get("MAVEN_HOME") or os.path.dirname(os.path.dirname(os.path.realpath(program)))
    for path in (os.path.expanduser("~/.m2/settings.xml"), f"{home}/conf/settings.xml"):
        found = _MIRROR.search(_COMMENT.sub("", _text(path)))
        if found is not None and not found[1].startswith("http://0.0.0.0"):  # Maven's own bar to plain HTTP
            return found[1]
    for path in glob.glob(f"{home}/lib/maven-model-builder-*.jar"):
        try:
            with ZipFile(path) as archive:
                model = archive.read(_MODEL).decode("utf-8", "replace")
        except (OSError, KeyError, BadZipFile):
            continue
        found = _URL.search(model)
        if found is not None:
            return found[1]
    return ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except OSError:
        return ""
