"""Settings of package managers, as environment variables of the programs in a sandbox.

The environment of Python at /opt/env, and the host's programs, are read-only.  So each tool installs into a folder of
the workspace: it counts against the disk limit, and checkpoints and saved workspaces contain it.
"""

from __future__ import annotations

PLACE = "/sandbox/.local"  # its bin/ is on the PATH, its lib/python3.*/site-packages on `sys.path`

# Where the tools install, and where they keep files that nobody wants in a workspace.
PLACES = {
    "PYTHONUSERBASE": PLACE,  # pip takes it where it cannot write to the environment; also for `sudo pip`
    "PIP_BREAK_SYSTEM_PACKAGES": "1",  # where Debian's Python is the interpreter: nothing of the system can break
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_prefix": PLACE,  # for `npm install --global`
    "npm_config_cache": "/tmp/.cache/npm",
    "npm_config_update_notifier": "false",
    "GEM_HOME": f"{PLACE}/share/gem",
    "R_LIBS_USER": f"{PLACE}/lib/R",
    "GOBIN": f"{PLACE}/bin",
    "CARGO_INSTALL_ROOT": PLACE,
}

# Addresses below .invalid never exist (RFC 6761).  pip and npm print this one, and otherwise would not name the reason.
_NOWHERE = "https://this-sandbox-has-no-network.invalid"

# The environment of a sandbox without a network: tools fail at once instead of trying again, and do not fetch what they
# could do without.  Local files still install.
WITHOUT_A_NETWORK = {
    "CLOCHE_NETWORK": "none",  # for programs that want to know, and for kernels/shell_commands.py
    "PIP_RETRIES": "0",
    "PIP_INDEX_URL": f"{_NOWHERE}/simple",
    "PIP_NO_BUILD_ISOLATION": "0",  # means yes: build with the setuptools that is installed instead of fetching one
    "UV_OFFLINE": "1",
    "npm_config_fetch_retries": "0",
    "npm_config_registry": f"{_NOWHERE}/",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "CARGO_NET_RETRY": "0",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "COMPOSER_DISABLE_NETWORK": "1",
}
