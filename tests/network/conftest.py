"""Fixtures for tests of the network: the world outside, and sandboxes that may reach it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from tests.network.outside import RUNNING, World, started


@pytest.fixture(scope="session")
def world(jail: None) -> Iterator[World]:
    """The world outside; for the whole session, Cloche's settings have its names and open its address."""
    running = os.environ.get(RUNNING)
    with nullcontext(running) if running else started() as known, pytest.MonkeyPatch.context() as patch:
        world = World(json.loads(known))
        for name, value in world.settings.items():
            patch.setenv(name, value)
        yield world


@pytest.fixture(scope="session")
def trust() -> dict[str, str]:
    """Environment variables by which programs trust the certificates of the world, which are at TRUSTED."""
    names = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")
    return dict.fromkeys((*names, "PIP_CERT", "CARGO_HTTP_CAINFO"), TRUSTED)


TRUSTED = "/sandbox/world/ca.pem"
