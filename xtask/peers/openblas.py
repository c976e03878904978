"""Multiplies matrices with the OpenBLAS of NumPy and measures blocks of runs as it is told on stdin, one JSON document
in a line, in the language of `onl peer-process`. The number of threads is that of OPENBLAS_NUM_THREADS."""

import json
import sys
import time

import numpy

SAMPLES = 20
TYPES = {"f32": numpy.float32, "f64": numpy.float64}


def product(batches, m, k, n, element_type):
    random = numpy.random.default_rng(0)
    a, b = (
        random.standard_normal(shape).astype(TYPES[element_type])
        for shape in ((batches, m, k), (batches, k, n))
    )
    c = numpy.empty((batches, m, n), TYPES[element_type])
    if batches == 1:
        a, b, c = a[0], b[0], c[0]
    return lambda: numpy.matmul(a, b, out=c)


def block(least_ns, work):
    clock = time.perf_counter_ns
    warming, shortest = clock(), None
    while True:
        start = clock()
        work()
        took = max(clock() - start, 1)
        shortest = took if shortest is None else min(shortest, took)
        if clock() - warming >= least_ns // 4:
            break
    runs = min(max(least_ns // SAMPLES // shortest, 1), 1_000_000)
    samples, started = [], clock()
    while len(samples) < 3 or (clock() - started < least_ns and len(samples) < 2 * SAMPLES):
        start = clock()
        for _ in range(runs):
            work()
        samples.append(clock() - start)
    return {"measured": {"runs_per_sample": runs, "samples_ns": samples, "units": 0}}


def main():
    work = None
    for line in sys.stdin:
        request = json.loads(line)
        if request == "close":
            work, answer = None, "done"
        elif "product" in request:
            if request["product"]["element_type"] in TYPES:
                work = product(**request["product"])
                work()
                answer = {"opened": {"output_bytes": 0}}
            else:
                answer = {"failed": {"reason": "no products of this type in BLAS"}}
        elif work is None:
            answer = {"failed": {"reason": "nothing is open"}}
        else:
            answer = block(request["measure"]["least_ns"], work)
        print(json.dumps(answer), flush=True)


main()
