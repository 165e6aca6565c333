"""Counts the JSON texts that a server writes of a chart; Python imports this file when it is on PYTHONPATH."""

from __future__ import annotations

import os
import sys

MARK = "chartThatIsCounted00"  # base64, four bytes of it at a time

if "serve" in sys.orig_argv and "COUNTED" in os.environ:
    import json
    import json.encoder
    import traceback
    from collections.abc import Callable
    from typing import Any

    import pydantic
    import pydantic_core

    def counting(encode: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            text = encode(*args, **options)
            if (MARK.encode() if isinstance(text, bytes) else MARK) in text:
                with open(os.environ["COUNTED"], "a") as file:
                    callers = [frame.name for frame in traceback.extract_stack()[-8:-1]]
                    print(" ".join(callers), file=file)
            return text

        return counted

    # `json.dumps` calls `JSONEncoder.encode`.
    for owner, name in (
        (pydantic_core, "to_json"),
        (json.encoder.JSONEncoder, "encode"),
        (pydantic.BaseModel, "model_dump_json"),
    ):
        setattr(owner, name, counting(getattr(owner, name)))
