"""Small programs of Cloche that come before the host's programs on a sandbox's PATH, or replace missing ones.

A sandbox has one user, and no way to become another: `sudo` runs a command as this user, with root's name and home in
its environment, and `whoami` prints that name.  The kernel still refuses everything that needs a real root.
"""

from __future__ import annotations

_SUDO = r"""#!/bin/sh
# There is one user in here: what needs a real root fails all the same.
user=root shell= login= keep= stay=
usage() { echo "usage: sudo [-EHinsS] [-u user] [-D directory] [NAME=value] command" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    -u|--user) [ $# -gt 1 ] || usage; user=$2; shift 2 ;;
    --user=*) user=${1#--user=}; shift ;;
    -D|--chdir) [ $# -gt 1 ] || usage; stay=$2; shift 2 ;;
    --chdir=*) stay=${1#--chdir=}; shift ;;
    -g|-p|-C|-h|-r|-t|-T|-U|--group|--prompt|--host) [ $# -gt 1 ] || usage; shift 2 ;;
    --preserve-env|--preserve-env=*) keep=1; shift ;;
    --login) login=1; shift ;;
    --shell) shell=1; shift ;;
    --validate|--reset-timestamp|--remove-timestamp) exit 0 ;;
    --list) echo "User $user may run all commands that the sandbox lets its only user run."; exit 0 ;;
    --version) echo "sudo of Cloche: one user, no other rights"; exit 0 ;;
    --*) shift ;;
    -?*)
      flags=${1#-}; shift
      while [ -n "$flags" ]; do
        rest=${flags#?}
        case ${flags%"$rest"} in
          i) login=1 ;;
          s) shell=1 ;;
          E) keep=1 ;;
          u) if [ -n "$rest" ]; then user=$rest; rest=; else user=${1-}; [ $# -gt 0 ] && shift; fi ;;
          v|k|K) exit 0 ;;
          l) echo "User $user may run all commands that the sandbox lets its only user run."; exit 0 ;;
          V) echo "sudo of Cloche: one user, no other rights"; exit 0 ;;
        esac
        flags=$rest
      done ;;
    [A-Za-z_]*=*) export "$1"; shift ;;
    *) break ;;
  esac
done
case $user in
  root|"#0") user=root home=/root ;;
  user|"#1000") user=user home=/home/user ;;
  *) echo "sudo: unknown user $user" >&2; exit 1 ;;
esac
SUDO_USER=${USER:-user} SUDO_UID=1000 SUDO_GID=1000 SUDO_COMMAND=$*
export SUDO_USER SUDO_UID SUDO_GID SUDO_COMMAND
USER=$user LOGNAME=$user
export USER LOGNAME
[ -n "$keep" ] || { HOME=$home; export HOME; }
[ -z "$stay" ] || cd "$stay" || exit 1
if [ -n "$login" ]; then
  cd "$home" || exit 1
  [ $# -eq 0 ] && exec /bin/bash -l
  exec /bin/bash -l -c 'exec "$@"' bash "$@"
fi
if [ -n "$shell" ]; then
  [ $# -eq 0 ] && exec "${SHELL:-/bin/bash}"
  exec "${SHELL:-/bin/bash}" -c '"$@"' bash "$@"
fi
[ $# -gt 0 ] || usage
command -v -- "$1" > /dev/null || { echo "sudo: $1: command not found" >&2; exit 1; }
exec "$@"
"""

_WHOAMI = r"""#!/bin/sh
[ $# -eq 0 ] || exec /usr/bin/whoami "$@"
echo "${USER:-user}"
"""

_SETFATTR = r"""#!/opt/env/bin/python3
import argparse, os, sys
parser = argparse.ArgumentParser(prog="setfattr", add_help=False)
parser.add_argument("-n", "--name")
parser.add_argument("-v", "--value", default="")
parser.add_argument("-x", "--remove")
parser.add_argument("-h", "--no-dereference", action="store_true")
parser.add_argument("paths", nargs="+")
given = parser.parse_args()
if bool(given.name) == bool(given.remove):
    parser.error("say either -n NAME or -x NAME")
for path in given.paths:
    try:
        if given.name:
            os.setxattr(path, given.name, os.fsencode(given.value), follow_symlinks=not given.no_dereference)
        else:
            os.removexattr(path, given.remove, follow_symlinks=not given.no_dereference)
    except OSError as problem:
        sys.exit(f"setfattr: {path}: {problem.strerror}")
"""

PROGRAMS = {"sudo": _SUDO, "whoami": _WHOAMI}
STAND_INS = {"setfattr": _SETFATTR}  # only used where the host has no such program
