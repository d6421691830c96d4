"""One stream writes, another reads: behind an event of the first, or without one.  Argument: wait or none."""

import sys

import torch
import torch_npu  # noqa: F401

writer, reader = torch.npu.Stream(), torch.npu.Stream()
source, buffer = torch.ones(1 << 20).npu(), torch.zeros(1 << 20).npu()
torch.npu.synchronize()
with torch.npu.stream(writer):
    buffer.copy_(source)
    written = torch.npu.Event()
    written.record()
with torch.npu.stream(reader):
    if sys.argv[1] == "wait":
        reader.wait_event(written)
    taken = buffer.clone()
torch.npu.synchronize()
assert bool((taken.cpu() == 1).all())
