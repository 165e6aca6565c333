"""The host's npm configuration: its registry, the registries of scopes, and credentials, found by asking npm itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64encode
from time import monotonic
from urllib.parse import urlsplit

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KEEP_S = 300.0
_PATIENCE_S = 20.0
_PORTS = {"https": 443, "http": 80}
# `npm config get` does not print credentials, so npm's own reader of its configuration is called.
_ASK_NPM = """
const [, npm] = process.argv, path = require('path');
const part = (name) => require(path.join(npm, 'node_modules', name));
const Config = part('@npmcli/config'), { definitions, shorthands, flatten } = part('@npmcli/config/lib/definitions');
(async () => {
  const config = new Config({ npmPath: npm, definitions, shorthands, flatten, argv: ['node', 'npm'], warn: false });
  await config.load();
  const registries = { '': config.get('registry') };
  for (const where of ['global', 'user', 'env']) {
    for (const key of Object.keys(config.data.get(where).data)) {
      if (/^@[^:]+:registry$/.test(key)) registries[key.split(':')[0]] = config.get(key);
    }
  }
  const credentials = {};
  for (const url of Object.values(registries)) credentials[url] = config.getCredentialsByURI(url);
  console.log(JSON.stringify({ registries, credentials }));
})();
"""


class NpmConfiguration(Plain):
    """The registries of the host's npm, with their credentials: only for sandboxes that run our programs alone."""

    registries: Mapping[str, str] = {}  # by scope; "" is the usual one
    credentials: Mapping[str, Mapping[str, str]] = {}  # by registry, in npm's words

    def registry_of(self, name: str) -> str:
        """The address of the registry that has a package, with a slash at its end."""
        scope = name.partition("/")[0] if name.startswith("@") else ""
        found = self.registries.get(scope) or self.registries.get("", "")
        return found if found.endswith("/") else f"{found}/"

    def hosts(self) -> tuple[tuple[str, int], ...]:
        """The hosts and ports of the registries."""
        return hosts_of(self.registries.values())

    def settings(self) -> str:
        """The text of an .npmrc that leads to the same registries."""
        lines = [f"{scope}:registry={url}" if scope else f"registry={url}" for scope, url in self.registries.items()]
        for url, known in self.credentials.items():
            parts = urlsplit(url)
            place = f"//{parts.netloc}{parts.path if parts.path.endswith('/') else parts.path + '/'}"
            if known.get("token"):
                lines.append(f"{place}:_authToken={known['token']}")
            elif known.get("auth"):
                lines.append(f"{place}:_auth={known['auth']}")
        return "".join(f"{line}\n" for line in lines)

    def authorization(self) -> dict[str, str]:
        """The credentials as headers, by host."""
        found = {}
        for url, known in self.credentials.items():
            host = urlsplit(url).netloc.rpartition("@")[2]
            if known.get("token"):
                found[host] = f"Bearer {known['token']}"
            elif known.get("auth"):
                found[host] = f"Basic {known['auth']}"
        return found


def hosts_of(urls: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The hosts and ports in addresses."""
    parts = [urlsplit(url) for url in urls if url]
    found = [(each.hostname, each.port or _PORTS.get(each.scheme, 0)) for each in parts if each.hostname]
    return tuple(dict.fromkeys(each for each in found if each[1]))


_said: tuple[float, NpmConfiguration] | None = None


def find() -> NpmConfiguration:
    """The configuration; kept for a while, since npm takes a moment to say it."""
    global _said
    if _said is None or monotonic() - _said[0] > _KEEP_S:
        _said = monotonic(), _ask()
    return _said[1]


def _ask() -> NpmConfiguration:
    npm = shutil.which("npm")
    if npm is None:
        return NpmConfiguration()
    home = os.path.dirname(os.path.dirname(os.path.realpath(npm)))  # npm is a link to bin/npm-cli.js in its folder
    command = ["node", "-e", _ASK_NPM, home]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True, cwd="/")
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return _asked_plainly(npm)
    credentials = {url: _plain(known) for url, known in found["credentials"].items()}
    return NpmConfiguration(found["registries"], credentials)


def _asked_plainly(npm: str) -> NpmConfiguration:
    """The registry alone, of an npm that is built in another manner."""
    try:
        command = [npm, "config", "get", "registry"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True, cwd="/")
    except (OSError, subprocess.SubprocessError):
        return NpmConfiguration()
    return NpmConfiguration({"": done.stdout.strip()})


def _plain(known: dict[str, str]) -> dict[str, str]:
    if known.get("username") and known.get("password") and not known.get("auth"):
        pair = f"{known['username']}:{known['password']}"
        return {"auth": b64encode(pair.encode()).decode()}
    return {name: known[name] for name in ("token", "auth") if known.get(name)}
