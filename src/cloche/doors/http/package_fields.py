"""Packages in bodies and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_EXAMPLE = ["polars", "httpx>=0.27"]
# A requirement can have the hashes of many files.
Names = Annotated[list[Annotated[str, Field(max_length=32_000)]], Field(max_length=200)]
Language = Literal["python", "javascript"]


class PackageLists(BaseModel):
    """Packages by language."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    python: Names = []
    javascript: Names = []


PackagesField = Annotated[
    Names | PackageLists | None,
    Field(
        description="packages to install first, such as `polars` or `httpx>=0.27`; a list is for the program's "
        "language, else for Python, and `npm:` before a name stands for JavaScript",
        examples=[_EXAMPLE],
    ),
]


def packages_in(value: list[str] | PackageLists | None) -> list[str] | dict[str, list[str]]:
    """Return the packages of a request as the service takes them."""
    return value.model_dump() if isinstance(value, PackageLists) else value or []


class InstallBody(BaseModel):
    """Packages to install in a sandbox."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    packages: Names | PackageLists = Field(description="such as `polars` or `httpx>=0.27`", examples=[_EXAMPLE])
    language: Language = Field("python", description="the language of a list's packages")


class PackageAnswer(BaseModel):
    """A package that programs of a sandbox can import."""

    name: str
    version: str
    language: Language
    source: Literal["environment", "sandbox"] = Field(
        description="`environment`: all sandboxes have it; `sandbox`: it was installed in this one"
    )
    size: int | None = Field(description="bytes on disk, where they are known")


class InstallAnswer(BaseModel):
    """The outcome of installing packages."""

    packages: list[PackageAnswer] = Field(description="those that are new in the sandbox")
    satisfied: list[PackageAnswer] = Field(description="those that it had already")
    warnings: list[str]
    restart: list[str] = Field(description="packages that running sessions have loaded in another version")


class RemovedAnswer(BaseModel):
    """The packages that were removed."""

    removed: list[str]


class FoundPackageAnswer(BaseModel):
    """A package of an index."""

    name: str
    version: str = Field(description="the newest one; empty if the index did not answer")
    summary: str
    language: Language
    installed: str | None = Field(description="the version that every sandbox has")


class SearchAnswer(BaseModel):
    """The packages that a search has found, the best first."""

    items: list[FoundPackageAnswer]
    warnings: list[str] = Field(description="why some packages, versions or descriptions may be missing")


class PackagePolicyAnswer(BaseModel):
    """What a key may install: the operator's policy, narrowed by the key's own."""

    allow: list[str] = Field(description="names and patterns; empty: every name; `none`: no name")
    deny: list[str]
    versions: dict[str, str] = Field(description="bounds on versions, by name")
    size: int = Field(description="bytes to download for one request")
    count: int = Field(description="packages that one request may lead to")
    undated: Literal["off", "warn", "block"] = Field(description="packages of an index that knows no dates")
    min_age_days: float = Field(description="the age of a version that nobody has pinned; 0: none")
    licences: list[str]
    hashes: bool = Field(description="whether each package must be pinned with a hash")
    sources: list[str] = Field(description="packages that may be built from source")
    scripts: list[str] = Field(description="npm packages whose install scripts run")
    catalogue: Literal["off", "warn", "block"]
    lookalikes: Literal["off", "warn", "block"]
