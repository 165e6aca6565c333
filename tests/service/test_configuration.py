"""The server's configuration: which source wins, and what is refused with which words."""

from __future__ import annotations

import argparse
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from cloche.configuration import FIELDS, Configuration, add_flags, load, load_arguments
from cloche.errors import Misconfigured
from cloche.model.limits import LIMITS
from cloche.setting_kinds import masked


def toml(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


BOUNDS = {
    "seconds": ("10", "10", 10.0),
    "bytes": ("33M", '"33M"', 33 << 20),
    "cores": ("2.5", "2.5", 2.5),
    "processes": ("9", "9", 9),
}
# A value for each field that is not its default: as a flag or variable has it, as a file has it, and what it becomes.
OTHER = {
    "host": ("0.0.0.0", '"0.0.0.0"', "0.0.0.0"),
    "port": ("0", "0", 0),
    "data_dir": ("/srv/cloche", '"/srv/cloche"', Path("/srv/cloche")),
    "database_url": ("postgresql://db/x", '"postgresql://db/x"', "postgresql://db/x"),
    "log_level": ("debug", '"debug"', "debug"),
    "log_format": ("json", '"json"', "json"),
    "auth": ("no", "false", False),
    "hosts": ("One.example, two.example:80", '["one.example", "two.example:80"]', ("one.example", "two.example:80")),
    "origins": ("https://a.example", '["https://a.example"]', ("https://a.example",)),
    "ports_domain": ("boxes.example", '"boxes.example"', "boxes.example"),
    "runs_at_once": ("3", "3", 3),
    "queue": ("0", "0", 0),
    "readers_per_key": ("9", "9", 9),
    "readers_per_sandbox": ("8", "8", 8),
    "queue_wait": ("0.5", "0.5", 0.5),
    "memory_reserve": ("1.5G", '"1.5G"', 3 << 29),
    "sandboxes": ("7", "7", 7),
    "ttl": ("60", "60", 60.0),
    "max_ttl": ("7200", "7200", 7200.0),
    "idle_timeout": ("61", "61", 61.0),
    "max_upload": ("2048", "2048", 2048),
    "max_body": ("1M", '"1M"', 1 << 20),
    "persistent_age": ("86400", "86400", 86400.0),
    "max_runs_kept": ("5", "5", 5),
    "max_audit_kept": ("6", "6", 6),
    "mounts": ("/srv/a,/srv/b", '["/srv/a", "/srv/b"]', ("/srv/a", "/srv/b")),
    "max_network": (
        "Api.example.org:8443,packages",
        '["Api.example.org:8443", "packages"]',
        ("api.example.org:8443", "packages"),
    ),
    "max_network_rate": ("2M", '"2M"', 2 << 20),
    "sharing": ("off", '"off"', "off"),
    "rate_cpu_hour": ("0.25", "0.25", 0.25),
    "rate_memory_gb_hour": ("2", "2", 2.0),
    "currency": ("EUR", '"EUR"', "EUR"),
    **{row.setting: BOUNDS[row.unit] for row in LIMITS},
}


def test_every_field_is_tried():
    assert set(OTHER) == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_value_can_come_from_everywhere(name, tmp_path):
    text, in_file, value = OTHER[name]
    path = toml(tmp_path, f"{name} = {in_file}")
    parser = argparse.ArgumentParser()
    add_flags(parser)
    flag = f"--{name.replace('_', '-')}"
    words = ["--no-auth"] if name == "auth" else [flag, text]
    flags = {key: given for key, given in vars(parser.parse_args(words)).items() if key in FIELDS}
    variable = f"CLOCHE_{name.upper()}"

    loaded = [
        load({}, {}, path),
        load({}, {variable: text}, None),
        load(flags, {}, None),
    ]

    assert getattr(load({}, {}).value, name) != value
    assert [getattr(each.value, name) for each in loaded] == [value] * 3
    assert type(getattr(loaded[0].value, name)) is type(value)
    sources = [f"file {path}", f"environment {variable}", f"flag {'--no-auth' if name == 'auth' else flag}"]
    assert [each.sources[name] for each in loaded] == sources
    assert all(source == "default" for key, source in loaded[0].sources.items() if key != name)


def test_the_bound_on_the_network_may_be_none_or_one_preset(tmp_path):
    assert load({}, {"CLOCHE_MAX_NETWORK": "none"}).value.max_network == ()
    assert load({}, {}, toml(tmp_path, 'max_network = "packages"')).value.max_network == ("packages",)
    for text in ("none,packages", "http://example.org/", "example.org:53"):
        with pytest.raises(Misconfigured, match="max_network"):
            load({}, {"CLOCHE_MAX_NETWORK": text})


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path):
    path = toml(tmp_path, "port = 1\nqueue = 1\nsandboxes = 1")

    loaded = load({"port": "3"}, {"CLOCHE_PORT": "2", "CLOCHE_QUEUE": "2"}, path)

    assert (loaded.value.port, loaded.value.queue, loaded.value.sandboxes) == (3, 2, 1)
    assert loaded.sources["queue"] == "environment CLOCHE_QUEUE"


def test_the_file_is_found_by_flag_then_variable_then_place(tmp_path):
    (tmp_path / "cloche").mkdir()
    usual = toml(tmp_path / "cloche", "port = 1")
    (tmp_path / "named.toml").write_text("port = 2")
    (tmp_path / "flag.toml").write_text("port = 3")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    named = {**environ, "CLOCHE_CONFIG": str(tmp_path / "named.toml")}

    assert load({}, environ).sources["port"] == f"file {usual}"
    assert load({}, {"HOME": str(tmp_path)}).value.port == 7500
    assert load({}, named).value.port == 2
    assert load({}, named, tmp_path / "flag.toml").value.port == 3


def test_a_file_below_the_home_is_found(tmp_path):
    (tmp_path / ".config" / "cloche").mkdir(parents=True)
    toml(tmp_path / ".config" / "cloche", "port = 1")

    assert load({}, {"HOME": str(tmp_path)}).value.port == 1
    assert load({}, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "not/absolute"}).value.port == 1


def test_data_is_kept_where_the_desktop_says():
    assert load({}, {"HOME": "/home/ada"}).value.data_dir == Path("/home/ada/.local/share/cloche")
    assert load({}, {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}).value.data_dir == Path("/data/cloche")
    assert load({}, {"XDG_DATA_HOME": "/data"}).value.database == "sqlite:////data/cloche/cloche.db"


def test_an_empty_variable_is_none():
    assert load({}, {"CLOCHE_PORT": "", "CLOCHE_CONFIG": ""}).sources["port"] == "default"


def test_repeated_flags_add_up():
    parser = argparse.ArgumentParser()
    add_flags(parser)

    loaded = load_arguments(parser.parse_args(["--hosts", "a", "--hosts", "b,c"]))

    assert loaded.value.hosts == ("a", "b", "c")


@pytest.mark.parametrize("value", [0, 3, 7])
def test_flags_need_not_be_texts(value, tmp_path):
    loaded = load({"port": value, "data_dir": tmp_path, "auth": False, "hosts": ("a",), "ttl": 5, "queue": None}, {})

    assert (loaded.value.port, loaded.value.data_dir, loaded.value.auth) == (value, tmp_path, False)
    assert (loaded.value.hosts, loaded.value.ttl, loaded.sources["queue"]) == (("a",), 5.0, "default")


def test_it_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Configuration().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("prot = 1", "no setting 'prot' (file ", "Did you mean port?"),
        ("max-ttl = 1", "no setting 'max-ttl' (file ", "Did you mean max_ttl?"),
        ("[server]\nport = 1", "no setting 'server' (file ", "max_audit_kept"),
        ('port = "7500"', "port = '7500' (file ", "default is 7500"),
        ("port = true", "is not a whole number", ""),
        ("port = 7500.0", "is not a whole number", ""),
        ("port = 65536", "port = 65536 (file ", "from 0 to 65535"),
        ("port = -1", "out of range", ""),
        ("auth = 1", "auth = 1 (file ", ""),
        ('auth = "no"', "is not yes or no", ""),
        ("ttl = nan", "out of range", ""),
        ("ttl = inf", "out of range", ""),
        ('ttl = "1"', "is not a number of seconds", ""),
        ('max_memory = "much"', "not a number of bytes", "default is 8G"),
        ('max_memory = "1K"', "out of range", "from 16M to 16384G"),
        ("max_memory = true", "not a number of bytes", ""),
        ('memory_reserve = "-1M"', "out of range", ""),
        ('log_level = "warn"', "not one of debug, info, warning, error", "Did you mean warning?"),
        ('hosts = "one.example"', "not a list of host names", ""),
        ('hosts = ["https://one.example"]', "not a list of host names", ""),
        ('hosts = ["*"]', "not a list of host names", ""),
        ('origins = ["*"]', "not a list of origins", ""),
        ('origins = ["https://a.example/"]', "not a list of origins", ""),
        ('origins = ["null"]', "not a list of origins", ""),
        ('mounts = ["data"]', "not a list of absolute paths", ""),
        ("mounts = [1]", "not a list of absolute paths", ""),
        ('data_dir = ""', "not a path", ""),
        ('host = "a b"', "not an address", ""),
        ('ports_domain = "http://x"', "not a domain", ""),
        ('database_url = "mysql://x/y"', "not a URL of sqlite:// or postgresql://", ""),
        ("port = ", "is not TOML", ""),
        ("ttl = 700000", "ttl = 700000 (file ", "Lower the one"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(text, words, hint, tmp_path):
    with pytest.raises(Misconfigured) as caught:
        load({}, {}, toml(tmp_path, text))

    assert words in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.hint


def test_a_variable_and_a_flag_are_named():
    with pytest.raises(Misconfigured, match=r"\(environment CLOCHE_QUEUE\)"):
        load({}, {"CLOCHE_QUEUE": "many"})
    with pytest.raises(Misconfigured, match=r"\(flag --max-ttl\)"):
        load({"max_ttl": "long"}, {})
    with pytest.raises(Misconfigured, match="no setting 'prot'"):
        load({"prot": "1"}, {})


def test_a_file_that_was_named_has_to_be_there(tmp_path):
    with pytest.raises(Misconfigured, match=r"flag --config.*No such file"):
        load({}, {}, tmp_path / "none.toml")
    with pytest.raises(Misconfigured, match=r"environment CLOCHE_CONFIG.*No such file"):
        load({}, {"CLOCHE_CONFIG": str(tmp_path / "none.toml")})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_keys_can_be_done_without_on_loopback(host):
    assert load({"auth": False, "host": host}, {}).value.auth is False


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", "localhost.example.org"])
def test_keys_cannot_be_done_without_elsewhere(host):
    with pytest.raises(Misconfigured, match="everyone"):
        load({"auth": False, "host": host}, {})


def test_a_variable_that_is_nearly_ours_is_told():
    loaded = load({}, {"CLOCHE_PROT": "1", "CLOCHE_POOL": "1", "CLOCHE_API_KEY": "x", "CLOCHE_SERVICE_HOST": "x"})

    assert loaded.strangers == {"CLOCHE_PROT": "CLOCHE_PORT"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@db:5432/x", "postgresql://ada:***@db:5432/x"),
        ("postgresql+asyncpg://ada:se/cr:e@t@db/x", "postgresql+asyncpg://ada:***@db/x"),
        ("postgresql://:secret@db/x", "postgresql://:***@db/x"),
        ("postgresql://db/x?user=ada&password=secret&a=b", "postgresql://db/x?user=ada&password=***&a=b"),
        ("postgresql://ada@db:5432/x", "postgresql://ada@db:5432/x"),
        ("sqlite:////data/cloche.db", "sqlite:////data/cloche.db"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert masked(url) == shown
    assert load({"database_url": url}, {}).shown()["database_url"] == shown


@pytest.mark.parametrize("url", ["mysql://ada:secret@db/x", "ada:secret@db/x"])
def test_a_password_is_not_in_an_error(url):
    with pytest.raises(Misconfigured) as caught:
        load({"database_url": url}, {})

    assert "secret" not in str(caught.value)
