"""Runs a model in onnxruntime on seeded inputs and writes inputs and outputs as .npy files.

usage: onnxruntime_reference.py MODEL FOLDER NAME:DTYPE:SHAPE:GENERATOR...

SHAPE is `1x128`; GENERATOR is `int,LOW,HIGH`, `const,VALUE`, `normal` or `uniform,LOW,HIGH`. Inputs are drawn in the
listed order from numpy's default_rng(0). FOLDER gets `input_<name>.npy` and `output_<i>.npy` in graph order.
"""

import pathlib
import sys

import numpy
import onnxruntime


def generate(rng, dtype, shape, generator):
    kind, *arguments = generator.split(",")
    if kind == "int":
        low, high = map(int, arguments)
        return rng.integers(low, high, shape).astype(dtype)
    if kind == "const":
        return numpy.full(shape, float(arguments[0])).astype(dtype)
    if kind == "normal":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "uniform":
        low, high = map(float, arguments)
        return rng.uniform(low, high, shape).astype(dtype)
    raise SystemExit(f"unknown generator {kind}")


def main():
    model, folder, *specifications = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = numpy.random.default_rng(0)
    feeds = {}
    for specification in specifications:
        name, dtype, shape, generator = specification.split(":")
        dims = [int(d) for d in shape.split("x")] if shape else []
        feeds[name] = generate(rng, dtype, dims, generator)
        numpy.save(folder / f"input_{name}.npy", feeds[name])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for index, value in enumerate(session.run(None, feeds)):
        numpy.save(folder / f"output_{index}.npy", value)


main()
