"""Compares steady run times of `onl` and onnxruntime on one model, interleaved, each in a process of its own.

usage: compare_onnxruntime.py ONL MODEL [--threads N] [--rounds N] [--dim NAME=N ...] [--no-profiles]

Run it with a Python that has onnxruntime (the tests make one at target/reference-venv). Every round runs both programs
once on seeded inputs and takes the median of their runs; the printed ratio is the median over rounds of
onnxruntime / onl with its range, so above 1 `onl` is faster.
"""

import argparse
import json
import statistics
import subprocess
import sys

PEER = """
import json, sys, time
import numpy, onnxruntime
model, threads, dims = sys.argv[1], int(sys.argv[2]), dict(d.split("=") for d in sys.argv[3:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
rng = numpy.random.default_rng(0)
types = {"tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float)": "float32"}
feeds = {}
for value in session.get_inputs():
    shape = [d if isinstance(d, int) else int(dims.get(d, 1)) for d in value.shape]
    dtype = types[value.type]
    draw = rng.standard_normal(shape) if dtype == "float32" else rng.integers(0, 2, shape)
    feeds[value.name] = draw.astype(dtype)
for _ in range(5):
    session.run(None, feeds)
samples, end = [], time.perf_counter() + 1.0
while len(samples) < 3 or time.perf_counter() < end:
    start = time.perf_counter_ns()
    session.run(None, feeds)
    samples.append(time.perf_counter_ns() - start)
print(json.dumps(sorted(samples)[len(samples) // 2]))
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("onl")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--no-profiles", action="store_true")
    arguments = parser.parse_args()
    dims = [word for dim in arguments.dim for word in ("--dim", dim)]
    ours = [arguments.onl, "bench", arguments.model, "--json", "--threads", str(arguments.threads), *dims]
    if arguments.no_profiles:
        ours.append("--no-profiles")
    theirs = [sys.executable, "-c", PEER, arguments.model, str(arguments.threads), *arguments.dim]
    pairs = []
    for _ in range(arguments.rounds):
        onl = json.loads(subprocess.run(ours, check=True, capture_output=True).stdout)["steady"]["median_ns"]
        ort = json.loads(subprocess.run(theirs, check=True, capture_output=True).stdout)
        pairs.append((onl, ort))
    ratios = sorted(ort / onl for onl, ort in pairs)
    print(
        f"onl {statistics.median(p[0] for p in pairs) / 1e6:.2f} ms, "
        f"onnxruntime {statistics.median(p[1] for p in pairs) / 1e6:.2f} ms, "
        f"ratio {statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}] over {len(ratios)} rounds, "
        f"{arguments.threads} threads"
    )


main()
