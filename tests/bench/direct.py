"""Owns the comparison: the same inference sent to a replica straight over gRPC, without a gateway.
Never measures more than one request at a time.
Called by the gateway's benchmark as `python -m tests.bench.direct`; prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from engine.inference import Tensor
from tasks.tensors import encode
from tasks.triton import TritonClient, request_of

_TIMEOUT_S = 10.0


async def _measure(address: str, model: str, text: str, seconds: float, warmup_s: float) -> dict[str, object]:
    client = TritonClient(address)
    tensor = Tensor("text", "BYTES", (1, 1), [text])
    latencies_us = []
    begins_s = time.perf_counter() + warmup_s
    ends_s = begins_s + seconds
    while (sent_s := time.perf_counter()) < ends_s:
        request = request_of(model, "", "bench", [(tensor, encode(tensor).raw)])
        await client.infer(request, _TIMEOUT_S)
        if sent_s >= begins_s:
            latencies_us.append(int((time.perf_counter() - sent_s) * 1e6))
    await client.close()
    return {"latencies_us": sorted(latencies_us), "cpu_s": time.process_time()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.direct")
    parser.add_argument("--address", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds")
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    measuring = _measure(options.address, options.model, options.text, options.seconds, options.warmup)
    try:
        import uvloop
    except ImportError:
        result = asyncio.run(measuring)
    else:
        result = uvloop.run(measuring)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
