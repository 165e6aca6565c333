"""Decides which packages may be installed: first by name, and then by lock, before a byte is downloaded.

The operator's policy is narrowed by the policy of a key, never widened.  Each refusal names the package, the rule and
the numbers; its hint says what to do.
"""

from __future__ import annotations

from cloche.errors import InvalidRun, Refused
from cloche.model import npm_versions, python_versions
from cloche.model.limits import size as bytes_of
from cloche.model.limits import within
from cloche.model.packages import JAVASCRIPT
from cloche.model.plain import Plain
from cloche.packages import licences as licence_terms
from cloche.packages import lookalikes as similar
from cloche.packages.patterns import NOTHING, common, is_covered, is_named, patterns_of
from cloche.packages.version_bounds import bounds_of, broken_bound, common_bounds, for_resolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from cloche.model.packages import Lock, LockedPackage, Requirement
    from cloche.packages.catalogue import Catalogue

SIZE, COUNT, MIN_AGE_DAYS = 100 << 20, 200, 7.0  # by default
_MOST_BYTES, _MOST_PACKAGES, _MOST_DAYS, _MOST_ENTRIES = 1 << 50, 10_000, 3650, 1000
_VERDICTS = ("off", "warn", "block")  # from the widest to the strictest
_DAY = 86_400
_SHOWN = 5  # names in a message


class PackagePolicy(Plain):
    """What may be installed.

    `allow` and `deny` are lists of names, of patterns with `*`, and of either after `npm:` or `python:`; without
    `allow` every name is allowed, and `none` allows no name.  `versions` bounds the versions of packages.  `size`
    bounds the bytes to download for one request, `count` the packages in one lock.  A version that nobody has pinned
    must have been released `min_age_days` ago; `"off"` ends that.  `licences` lists SPDX ids, or `not:` and an id.
    With `hashes`, every package must be pinned with a hash.  `sources` may be built from source, and the install
    scripts of `scripts` may run.  `catalogue` (malicious packages), `lookalikes` (names that are nearly popular ones)
    and `undated` (packages whose index knows no dates, as plain mirrors do not) are `"block"`, `"warn"` or `"off"`.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    size: int = SIZE
    count: int = COUNT
    min_age_days: float = MIN_AGE_DAYS
    licences: tuple[str, ...] = ()
    hashes: bool = False
    sources: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    catalogue: str = "block"
    lookalikes: str = "warn"
    undated: str = "warn"

    def __init__(
        self,
        allow: str | Iterable[str] = (),
        deny: str | Iterable[str] = (),
        versions: Mapping[str, str] | None = None,
        size: int | str = SIZE,
        count: int = COUNT,
        min_age_days: float | str = MIN_AGE_DAYS,
        licences: str | Iterable[str] = (),
        hashes: bool = False,
        sources: str | Iterable[str] = (),
        scripts: str | Iterable[str] = (),
        catalogue: str = "block",
        lookalikes: str = "warn",
        undated: str = "warn",
    ) -> None:
        if type(hashes) is not bool:
            raise InvalidRun(f"packages.hashes is true or false, not {hashes!r:.100}.")
        super().__init__(
            allow=patterns_of("packages.allow", allow),
            deny=_without_none(patterns_of("packages.deny", deny)),
            versions=bounds_of("packages.versions", {} if versions is None else versions),
            size=int(within("packages.size", bytes_of("packages.size", size), 0, _MOST_BYTES, "bytes")),
            count=_whole("packages.count", count),
            min_age_days=_days(min_age_days),
            licences=licence_terms.licence_rules("packages.licences", licences),
            hashes=hashes,
            sources=_without_none(patterns_of("packages.sources", sources)),
            scripts=_without_none(patterns_of("packages.scripts", scripts)),
            catalogue=_verdict("packages.catalogue", catalogue),
            lookalikes=_verdict("packages.lookalikes", lookalikes),
            undated=_verdict("packages.undated", undated),
        )

    def narrowed(self, other: PackagePolicy) -> PackagePolicy:
        """What both policies allow: the stricter of the two in every field."""
        return PackagePolicy(
            allow=common(self.allow, other.allow) if self.allow and other.allow else self.allow or other.allow,
            deny=tuple(dict.fromkeys((*self.deny, *other.deny))),
            versions=common_bounds(self.versions, other.versions),
            size=min(self.size, other.size),
            count=min(self.count, other.count),
            min_age_days=max(self.min_age_days, other.min_age_days),
            licences=licence_terms.common_rules(self.licences, other.licences),
            hashes=self.hashes or other.hashes,
            sources=common(self.sources, other.sources),
            scripts=common(self.scripts, other.scripts),
            catalogue=max(self.catalogue, other.catalogue, key=_VERDICTS.index),
            lookalikes=max(self.lookalikes, other.lookalikes, key=_VERDICTS.index),
            undated=max(self.undated, other.undated, key=_VERDICTS.index),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as JSON."""
        found = {name: getattr(self, name) for name in self._fields}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        return {**plain, "versions": dict(self.versions)}

    def allows_source(self, ecosystem: str, name: str) -> bool:
        """Whether a package may be built from source."""
        return is_covered(ecosystem, name, self.sources)

    def allows_scripts(self, name: str) -> bool:
        """Whether the install scripts of an npm package may run."""
        return is_covered(JAVASCRIPT, name, self.scripts)

    def bounds_for(self, ecosystem: str) -> dict[str, str]:
        """The bounds on versions by name, so that a resolver chooses versions that will not be refused."""
        return for_resolver(ecosystem, self.versions)

    def check_request(self, requirements: Sequence[Requirement], catalogue: Catalogue | None = None) -> list[str]:
        """Check what a caller asks for, before it is resolved; return warnings, or raise Refused.

        With a catalogue, a malicious name is refused as such.  Indexes remove these, so a resolver would only say that
        there is no such package.
        """
        if len(requirements) > self.count:
            raise _too_many(len(requirements), self.count)
        warnings = []
        for each in requirements:
            self._check_name(each.ecosystem, each.name, each.name)
            if catalogue is not None:
                warnings += self._check_catalogue(each, catalogue)
            if self.hashes and not (each.pinned and each.hashes):
                raise _without_hash(each.text, each)
            if each.version is not None:
                self._check_version(each.ecosystem, each.name, each.version, each.name)
            warnings += self._looks_like(each)
        return warnings

    def check_lock(
        self, requirements: Sequence[Requirement], lock: Lock, now: float, catalogue: Catalogue
    ) -> list[str]:
        """Check what a resolver has chosen, before it is downloaded; return warnings, or raise Refused."""
        asked: dict[str, list[Requirement]] = {}
        for each in requirements:
            if each.ecosystem == lock.ecosystem:
                asked.setdefault(each.name, []).append(each)
        warnings = []
        undated = []
        for package in lock.packages:
            warnings += self._check_catalogue(package, catalogue)
        for package in lock.packages:
            shown = _shown(package, is_asked=package.name in asked)
            self._check_name(package.ecosystem, package.name, shown)
            self._check_version(package.ecosystem, package.name, package.version, shown)
            self._check_hash(package, asked.get(package.name, ()), shown)
            self._check_source(package, shown)
            if not any(_is_pinned_to(each, package) for each in asked.get(package.name, ())):
                undated += self._check_age(package, now, shown)
            warnings += self._check_licence(package, shown)
        if len(lock.packages) > self.count:
            raise _too_many(len(lock.packages), self.count)
        if undated:
            about = f"The index does not say when {_listed(undated)} came out, so their age is unknown"
            warnings.append(f"{about} (packages.min_age_days).")
        self._check_size(lock.packages)
        return [*warnings, *self._about_scripts(lock.packages)]

    def _check_name(self, ecosystem: str, name: str, shown: str) -> None:
        for pattern in self.deny:
            if is_covered(ecosystem, name, (pattern,)):
                by = "" if pattern == name else f" by {pattern}"
                raise Refused(
                    f"The package {shown} is denied{by} (packages.deny).", _or_operator("Use another package")
                )
        if self.allow == (NOTHING,):
            raise Refused(
                f"The package {shown} cannot be installed, because no package is allowed (packages.allow).",
                _or_operator("Use the packages that every sandbox has"),
            )
        if self.allow and not is_covered(ecosystem, name, self.allow):
            raise Refused(
                f"The package {shown} is not among those that are allowed (packages.allow).",
                _or_operator(f"Allowed: {_listed(self.allow)}. Use one of them"),
            )

    def _check_version(self, ecosystem: str, name: str, version: str, shown: str) -> None:
        bound = broken_bound(ecosystem, name, version, self.versions)
        if bound is not None:
            text = f"{name}@{bound}" if ecosystem == JAVASCRIPT else f"{name}{bound}"
            named = shown if version in shown else f"{shown} {version}"
            raise Refused(
                f"The package {named} is outside the bound {bound} (packages.versions).",
                f"Ask for another version, as in {text}.",
            )

    def _check_catalogue(self, package: Requirement | LockedPackage, catalogue: Catalogue) -> list[str]:
        if self.catalogue == "off":
            return []
        found = catalogue.malicious(package.ecosystem, package.name, package.version)
        if found is None:
            return []
        about = f": {found.summary}" if found.summary else ""
        named = f"{package.name} {package.version}" if package.version else package.name
        message = f"The package {named} is malicious, says {found.id}{about}"
        if self.catalogue == "warn":
            return [f"{message}."]
        meant = similar.meant_name(package.ecosystem, package.name)
        hint = (
            f"Did you mean {meant}?" if meant else "Remove it, and whatever asks for it; look for the name you meant."
        )
        raise Refused(f"{message} (packages.catalogue).", hint)

    def _looks_like(self, each: Requirement) -> list[str]:
        if self.lookalikes == "off" or is_named(each.ecosystem, each.name, self.allow):
            return []
        meant = similar.meant_name(each.ecosystem, each.name)
        if meant is None:
            return []
        if self.lookalikes == "warn":
            return [f"The package {each.name} has nearly the name of {meant}, which is popular. Did you mean {meant}?"]
        raise Refused(
            f"The package {each.name} has nearly the name of {meant}, which is popular (packages.lookalikes).",
            f"Did you mean {meant}? If not, the operator can name {each.name} in packages.allow.",
        )

    def _check_hash(self, package: LockedPackage, asked: Sequence[Requirement], shown: str) -> None:
        hashes = {each for one in asked for each in one.hashes}
        if hashes and package.file.hash not in hashes:
            raise Refused(
                f"The file of {shown} has a hash that its requirement does not name (packages.hashes): "
                f"{package.file.hash}.",
                "Compare the file with its author's. If it is the right one, add its hash to the requirement.",
            )
        if self.hashes and not hashes:
            raise _without_hash(shown, package)

    def _check_source(self, package: LockedPackage, shown: str) -> None:
        if package.is_source and not self.allows_source(package.ecosystem, package.name):
            raise Refused(
                f"The package {shown} has no wheel and would have to be built, which runs its code (packages.sources).",
                f"Ask for a version that has a wheel, or have the operator add {package.name} to packages.sources.",
            )

    def _check_age(self, package: LockedPackage, now: float, shown: str) -> list[str]:
        """Refuse a version that is too young; return its name if its age is unknown and nobody minds."""
        uploaded = package.file.uploaded
        if not self.min_age_days or (uploaded is None and self.undated == "off"):
            return []
        pin = f"{package.name}{'@' if package.ecosystem == JAVASCRIPT else '=='}{package.version}"
        wanted = f"versions that nobody has pinned must be {self.min_age_days:g} days old (packages.min_age_days)"
        if uploaded is None:
            if self.undated == "warn":
                return [package.name]
            raise Refused(
                f"The index does not say when {shown} was released, and {wanted}.",
                f'Pin it, if you trust it: {pin}. Where an index knows no dates, packages.undated can be "warn".',
            )
        days = (now - uploaded) / _DAY
        if days < self.min_age_days:
            raise Refused(
                f"The package {shown} was released {_age(days)}, and {wanted}.",
                f"Ask for an earlier version, or pin it, if you trust it: {pin}.",
            )
        return []

    def _check_licence(self, package: LockedPackage, shown: str) -> list[str]:
        verdict = licence_terms.is_allowed(package.licence, self.licences)
        if verdict:
            return []
        if verdict is None:
            return [f"The licence of {shown} is unknown, so it cannot be compared with packages.licences."]
        about = f"has the licence {package.licence[:100]}" if package.licence else "names no licence"
        raise Refused(
            f"The package {shown} {about}, which is not allowed (packages.licences).",
            _or_operator(f"Licences: {_listed(self.licences)}. Use another package"),
        )

    def _check_size(self, packages: Sequence[LockedPackage]) -> None:
        """Check the sizes that the index tells; downloads.py checks the others when it learns them."""
        known = [(package.file.size, package) for package in packages if package.file.size is not None]
        total = sum(size for size, _ in known)
        if total > self.size:
            size, largest = max(known, key=lambda each: each[0])
            more = "at least " if len(known) < len(packages) else ""
            # A rounded number must not look as if it were within the limit.
            real = _megabytes(total) if _megabytes(total) != _megabytes(self.size) else f"{total} bytes"
            whole = f"The packages need {more}{real} to download"
            part = f"The largest is {largest.name} {largest.version} with {_megabytes(size)}"
            if len(packages) == 1:
                whole, part = f"The package {largest.name} {largest.version} has {real}", ""
            raise Refused(
                f"{whole}, and {_megabytes(self.size)} are allowed (packages.size).{f' {part}.' if part else ''}",
                _or_operator("Ask for fewer or smaller packages"),
            )

    def _about_scripts(self, packages: Sequence[LockedPackage]) -> list[str]:
        skipped = [each.name for each in packages if each.has_scripts and not self.allows_scripts(each.name)]
        if not skipped:
            return []
        return [f"Install scripts do not run unless packages.scripts names the package: {_listed(skipped)}."]


def policy_of(value: Mapping[str, Any] | PackagePolicy | None) -> PackagePolicy:
    """The policy that a person wrote, as a table; InvalidRun names the field that cannot be used."""
    if isinstance(value, PackagePolicy):
        return value
    if value is None:
        return PackagePolicy()
    if not hasattr(value, "items"):
        raise InvalidRun(
            f"A policy on packages is a table, not {value!r:.100}.", hint=f"Its fields are {_fields()}, each optional."
        )
    unknown = [name for name in value if name not in PackagePolicy._fields]
    if unknown:
        from cloche.nearest import did_you_mean

        hint = did_you_mean(str(unknown[0]), PackagePolicy._fields, f"There are {_fields()}.")
        raise InvalidRun(f"A policy on packages has no field {unknown[0]!r:.100}.", hint=hint)
    for name, given in value.items():
        if hasattr(given, "__len__") and not isinstance(given, str) and len(given) > _MOST_ENTRIES:
            raise InvalidRun(f"packages.{name} has {len(given)} entries, and can have at most {_MOST_ENTRIES}.")
    return PackagePolicy(**{name: given for name, given in value.items() if given is not None})


def _fields() -> str:
    return ", ".join(PackagePolicy._fields)


def _without_none(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """An empty list already names nothing here."""
    return tuple(each for each in patterns if each != NOTHING)


def _whole(rule: str, value: int) -> int:
    if type(value) is not int:
        raise InvalidRun(f"{rule} must be a whole number, not {value!r:.100}.")
    return int(within(rule, value, 0, _MOST_PACKAGES, "packages"))


def _days(value: float | str) -> float:
    if value == "off":
        return 0.0
    if isinstance(value, str):
        raise InvalidRun(
            f"packages.min_age_days is a number of days, not {value!r:.100}.", hint='Write a number, or "off".'
        )
    return float(within("packages.min_age_days", value, 0, _MOST_DAYS, "days"))


def _verdict(rule: str, value: str) -> str:
    if value not in _VERDICTS:
        raise InvalidRun(f"{rule} cannot be {value!r:.100}.", hint='Say "block", "warn" or "off".')
    return value


def _is_pinned_to(requirement: Requirement, package: LockedPackage) -> bool:
    if requirement.version is None or requirement.version == package.version:
        return requirement.version is not None
    language = npm_versions if package.ecosystem == JAVASCRIPT else python_versions
    key = language.version_key(requirement.version)
    return key is not None and key == language.version_key(package.version)


def _shown(package: LockedPackage, is_asked: bool) -> str:
    named = f"{package.name} {package.version}"
    return named if is_asked else f"{named} (which another package needs)"


def _or_operator(what: str) -> str:
    return f"{what}, or ask the operator, who decides about this rule."


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more


def _too_many(number: int, most: int) -> Refused:
    return Refused(
        f"The request comes to {number} packages, and {most} are allowed (packages.count).",
        _or_operator("Ask for fewer packages"),
    )


def _without_hash(shown: str, package: Requirement | LockedPackage) -> Refused:
    version = package.version or "VERSION"
    is_npm = package.ecosystem == JAVASCRIPT
    line = f"{package.name}{'@' if is_npm else '=='}{version} --hash={'sha512-…' if is_npm else 'sha256:…'}"
    return Refused(
        f"{shown} is not pinned with a hash, and every package must be (packages.hashes).", f"Ask for {line}."
    )


def _megabytes(number: int) -> str:
    """A size for a person."""
    return f"{number / (1 << 20):.1f}".removesuffix(".0") + " MB"


def _age(days: float) -> str:
    if days < 0:
        return "in the future, says its index"
    return f"{days * 24:.0f} hours ago" if days < 1 else f"{days:.1f} days ago"
