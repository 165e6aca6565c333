"""The command with which the sandboxes of an environment start, and the one that says when it is ready."""

from __future__ import annotations

from shlex import quote

READY_S = 60  # for the start command to become ready
LOG = "/tmp/.cloche-start.log"  # the first output of the start command, inside
_LOG_BYTES = 1 << 20
_TURNS = 40  # of 0.05 s, to wait for the last output of a command that has failed

# The start command gets a session of its own, so that all that it has started can be ended with it.
_SCRIPT = """\
start={start} ready={ready} log={log} pid=
failed() {{
  # What reads the command's output may be a moment later than its end; a process that it left may keep it open.
  for turn in {turns}; do [ -n "$start" ] && [ ! -e "$log.end" ] || break; sleep 0.05; done
  echo "$1" >&2
  for file in "$log" "$log.ready"; do [ ! -s "$file" ] || tail -n 20 "$file" >&2; done
  [ -z "$pid" ] || kill -KILL -- "-$pid" 2> /dev/null
  exit 1
}}
rm -f "$log.end"
if [ -n "$start" ]; then
  setsid /bin/bash -c "( $start
) > >(head -c {most} > $log; cat > /dev/null; : > $log.end) 2>&1 < /dev/null" > /dev/null 2>&1 & pid=$!
fi
until /bin/bash -c "$ready" > "$log.ready" 2>&1; do
  if [ -n "$pid" ] && ! kill -0 "$pid" 2> /dev/null; then
    wait "$pid" || {{ code=$? pid=; failed "the start command ended with exit code $code before it was ready:"; }}
    pid=
  fi
  [ "$SECONDS" -lt {seconds} ] || failed "the ready command did not succeed within {seconds} s:"
  sleep 0.05
done
{end}
"""
_END = '[ -z "$pid" ] || kill -KILL -- "-$pid" 2> /dev/null || true'


def script(start: str, ready: str, *, ends: bool) -> str:
    """A script for bash that starts a command and waits until it is ready; with `ends`, it ends the command again."""
    return _SCRIPT.format(
        start=quote(start),
        ready=quote(ready or "true"),
        log=LOG,
        most=_LOG_BYTES,
        seconds=READY_S,
        turns=" ".join(map(str, range(_TURNS))),
        end=_END if ends else "",
    )
