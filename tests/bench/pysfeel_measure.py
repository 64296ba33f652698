"""Owns measuring pySFEEL: standard input is a list of {name, expression, variables}, standard output {name: figures}.
Never imports anything of Conch: pySFEEL is under another licence.
Called as a process of its own, with the folder of pySFEEL as its argument: python tests/bench/pysfeel_measure.py FOLDER
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

BATCHES = 5
SECONDS_PER_BATCH = 0.1


def _microseconds(call: Any) -> float:
    began = time.process_time()
    call()
    calls = max(1, int(SECONDS_PER_BATCH / max(time.process_time() - began, 1e-6)))
    best = float("inf")
    for _ in range(BATCHES):
        began = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time() - began) / calls)
    return best * 1e6


def _measured(parser: Any, case: dict[str, Any]) -> dict[str, Any]:
    for name, value in case["variables"].items():
        parser.sFeelParse(f"{name} <- {json.dumps(value)}")
    status, answer = parser.sFeelParse(case["expression"])
    if "errors" in status:
        return {"refused": status["errors"][0]}
    return {"answers": [answer], "call_us": _microseconds(lambda: parser.sFeelParse(case["expression"]))}


def main() -> None:
    sys.path.append(sys.argv[1])
    warnings.simplefilter("ignore")
    import pySFeel

    parser = pySFeel.SFeelParser()
    figures = {}
    for case in json.load(sys.stdin):
        try:
            figures[case["name"]] = _measured(parser, case)
        except Exception as refused:  # whatever it fails with, the figure is left out and this is the reason
            figures[case["name"]] = {"refused": repr(refused)}
    json.dump(figures, sys.stdout, default=str)


if __name__ == "__main__":
    main()
