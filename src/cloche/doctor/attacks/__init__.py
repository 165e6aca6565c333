"""All probes, one file per goal of the attacker; each program runs after `probe.TOOLS`."""

from __future__ import annotations

from cloche.doctor.attacks import files, kernel, leaks, limits, neighbours, network, power
from cloche.doctor.probe import Probe

_ALL = (
    *(*files.PROBES, *power.PROBES, *kernel.PROBES, *leaks.PROBES, *neighbours.PROBES, *limits.PROBES),
    *network.PROBES,
)

PROBES: tuple[Probe, ...] = tuple(sorted(_ALL, key=lambda probe: int(probe.row[1:])))
