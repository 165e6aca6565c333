"""Environment variables for programs that may use the network: package managers, and the certificates to trust."""

from __future__ import annotations

from os.path import exists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.model.network import Network
    from cloche.packages.indexes import PackageIndexes

# The host's certificates, which sandboxes see at the same path; some tools would otherwise bring their own.
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
# The same with the certificate of the sandbox's own authority, for connections in which secrets are used.
BUNDLE_WITH_OURS, JAVA_STORE = "/run/cloche/certificates.pem", "/run/cloche/certificates.p12"
WGET_SETTINGS = "/run/cloche/wgetrc"  # wget knows no variable for certificates
_NAMES_OF_BUNDLE = (
    *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT"),
    *("CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
)
# In place of the settings with which package managers fail at once (walls/jail/package_tools.py).
_PACKAGES = {
    "PIP_RETRIES": "2",
    "PIP_NO_BUILD_ISOLATION": "1",  # means no: pip fetches what a build needs
    "UV_OFFLINE": "0",
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_mintimeout": "500",  # ms; 10 s otherwise
    "CARGO_NET_RETRY": "1",  # a second one would come after 3.5 s
    "COMPOSER_DISABLE_NETWORK": "0",
    # Empty: each tool uses its own default, so that a refusal names a host that exists.
    "PIP_INDEX_URL": "",
    "npm_config_registry": "",
    "GOPROXY": "",
}


def host_bundle() -> str:
    """The certificates that the host trusts."""
    try:
        with open(BUNDLE, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def variables(network: Network, indexes: PackageIndexes | None, placeholders: Mapping[str, str]) -> dict[str, str]:
    """The variables that a policy adds to the environment of programs; secrets are among them, as placeholders."""
    if network.is_none:
        return {}
    found = {"CLOCHE_NETWORK": "policy"}
    if network.changes_requests:
        found.update(dict.fromkeys(_NAMES_OF_BUNDLE, BUNDLE_WITH_OURS))
        store = {"": JAVA_STORE, "Password": "changeit", "Type": "PKCS12"}
        java = " ".join(f"-Djavax.net.ssl.trustStore{name}={value}" for name, value in store.items())
        found.update({name: placeholders[name] for name, secret in network.secrets.items() if secret.variable})
        found.update(WGETRC=WGET_SETTINGS, JAVA_TOOL_OPTIONS=java)
    elif exists(BUNDLE):
        found.update(dict.fromkeys(_NAMES_OF_BUNDLE, BUNDLE))
    found.update(_PACKAGES)
    if indexes is not None:
        if indexes.pip:
            found.update(PIP_INDEX_URL=indexes.pip, UV_DEFAULT_INDEX=indexes.pip)
        if indexes.pip_extra:
            found["PIP_EXTRA_INDEX_URL"] = found["UV_INDEX"] = " ".join(indexes.pip_extra)
        if indexes.npm:
            found["npm_config_registry"] = indexes.npm
        if indexes.go:
            found["GOPROXY"] = indexes.go
    return found
