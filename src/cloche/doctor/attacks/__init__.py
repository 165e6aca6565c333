"""All probes, one file per goal of the attacker; each program runs after `probe.TOOLS`."""

from __future__ import annotations

from cloche.doctor.attacks import files, kernel, leaks, limits, neighbours, power
from cloche.doctor.probe import Probe

PROBES: tuple[Probe, ...] = (
    *files.PROBES,
    *power.PROBES,
    *kernel.PROBES,
    *leaks.PROBES,
    *neighbours.PROBES,
    *limits.PROBES,
)
