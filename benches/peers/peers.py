"""Brings nine columns to the GPU as people write it in Python: times as JSON on the last line.

usage: python3 peers.py GROUPS[,GROUPS..] ROUNDS
The ways of one library take turns in one process. CUDA is PyTorch's and CuPy's own; the columns are a CUTLASS grouped GEMM's.
"""

import json
import sys
import time


def columns(groups):
    """The same bytes that the other ways send: sizes of 12 bytes, four pointers, four leading dimensions."""
    import numpy

    rows = numpy.arange(groups, dtype=numpy.int64)
    sizes = numpy.empty((groups, 3), dtype=numpy.int32)
    sizes[:, 0], sizes[:, 1], sizes[:, 2] = rows % 512, 4096, 14336
    pointers = [0x7000_0000_0000 + (rows + i) * 4096 for i in range(4)]
    strides = [numpy.full(groups, n, dtype=numpy.int64) for n in (14336, 14336, 4096, 4096)]
    return [sizes, *pointers, *strides]


def torch_ways(groups):
    import torch

    arrays = columns(groups)
    lists = [array.tolist() for array in arrays]
    dtypes = [torch.int32] + [torch.int64] * 8

    def from_lists(number):
        lists[1][0] = number
        return [torch.tensor(column, dtype=dtype, device="cuda") for column, dtype in zip(lists, dtypes)]

    def pinned_each(number):
        arrays[1][0] = number
        return [torch.from_numpy(array).pin_memory().to("cuda", non_blocking=True) for array in arrays]

    pinned = [torch.from_numpy(array).pin_memory() for array in arrays]
    views = [tensor.numpy() for tensor in pinned]
    kept = [torch.empty_like(tensor, device="cuda") for tensor in pinned]

    def pinned_kept(number):
        views[1][0] = number
        return [device.copy_(host, non_blocking=True) for device, host in zip(kept, pinned)]

    def right(tensors, number):
        arrays[1][0] = number
        return all((tensor.cpu().numpy() == array).all() for tensor, array in zip(tensors, arrays))

    ways = {
        'torch.tensor(list, device="cuda")': from_lists,
        'torch.from_numpy(..).pin_memory().to("cuda", non_blocking=True)': pinned_each,
        "torch, kept pinned and device tensors, copy_(non_blocking=True)": pinned_kept,
    }
    return ways, torch.cuda.synchronize, right


def cupy_ways(groups):
    import cupy

    arrays = columns(groups)

    def asarray(number):
        arrays[1][0] = number
        return [cupy.asarray(array) for array in arrays]

    def right(tensors, number):
        arrays[1][0] = number
        return all((cupy.asnumpy(tensor) == array).all() for tensor, array in zip(tensors, arrays))

    return {"cupy.asarray(numpy array)": asarray}, cupy.cuda.Device().synchronize, right


def spread(samples):
    samples = sorted(samples)
    at = lambda tenths: samples[min(len(samples) * tenths // 10, len(samples) - 1)]
    return {"median": at(5), "p10": at(1), "p90": at(9)}


def measure(ways, settle, right, rounds):
    times = {name: {"back_to_back": [], "host": [], "to_idle": []} for name in ways}
    number = 1
    calls = {}
    for name, way in ways.items():
        number += 1
        if not right(way(number), number):
            raise RuntimeError(f"{name}: WRONG BYTES on the device")
        settle()
        start = time.perf_counter()
        way(number)
        settle()
        # 20 ms a round, so that the slow ways do not take the whole run.
        calls[name] = max(2, min(100, int(0.02 / (time.perf_counter() - start))))
    for counted in [False] + [True] * rounds:
        for name, way in ways.items():
            settle()
            start = time.perf_counter()
            for _ in range(calls[name]):
                number += 1
                way(number)
            each = (time.perf_counter() - start) / calls[name]
            settle()
            number += 1
            start = time.perf_counter()
            kept = way(number)
            host = time.perf_counter() - start
            settle()
            idle = time.perf_counter() - start
            del kept
            if counted:
                for key, seconds in (("back_to_back", each), ("host", host), ("to_idle", idle)):
                    times[name][key].append(seconds * 1e6)
    return {name: {key: spread(samples) for key, samples in all.items()} for name, all in times.items()}


def main():
    sizes, rounds = [int(n) for n in sys.argv[1].split(",")], int(sys.argv[2])
    found = {"versions": {}, "sizes": {}, "not_run": {}}
    for library, make in (("torch", torch_ways), ("cupy", cupy_ways)):
        try:
            module = __import__(library)
            found["versions"][library] = module.__version__
            for groups in sizes:
                few = 2 if groups > 100_000 else rounds
                timings = measure(*make(groups), few)
                found["sizes"].setdefault(str(groups), {}).update(timings)
        except Exception as error:  # What is missing or broken here is reported there, and the other library still runs.
            found["not_run"][library] = f"{type(error).__name__}: {error}".splitlines()[0]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
