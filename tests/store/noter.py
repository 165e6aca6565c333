"""A server to be killed: `noter.py FOLDER URL PREFIX` notes runs for ever, and says on stdout which are noted.

`b 7` means that the beginning of run 7 is acknowledged, `e 7` its outcome.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from cloche.model.records import AuditRecord, RunRecord
from cloche.store.journal import Journal
from cloche.store.store import Store


def begun(name: str) -> RunRecord:
    return RunRecord(name, "ada", "k1", None, "", "python", "00" * 32, "running", 1000.0, {})


async def main(folder: str, url: str, prefix: str) -> None:
    store = await Store.open(url)
    journal = Journal(Path(folder), store)
    await journal.start()
    number = 0
    while True:
        number += 1
        run = begun(f"{prefix}-{number}")
        journal.note(run)
        os.write(1, f"b {run.id}\n".encode())
        result = json.dumps("x" * (200_000 if number % 50 == 0 else 200))
        journal.note(replace(run, state="done", exit_code=number, ended=1001.0, cpu_time=1.0, result=result))
        journal.note(AuditRecord(run.id, 1000.0, "ada", "k1", "run", run.id, {}))
        os.write(1, f"e {run.id}\n".encode())
        if number % 7 == 0:
            await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
