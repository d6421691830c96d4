"""What a script does with the device besides the operator; prints what it saw."""

import json

import torch
import torch_npu  # noqa: F401

seen = {
    "available": torch.npu.is_available(),
    "devices": torch.npu.device_count(),
    "name": torch.npu.get_device_name(0),
}
x = torch.arange(24.0).reshape(4, 6)
y = x.npu()
seen["round trip"] = torch.equal(y.cpu(), x)
seen["strided"] = torch.equal(y.t().contiguous().cpu(), x.t().contiguous())
seen["slice"] = torch.equal(y[1:3, 2:].clone().cpu(), x[1:3, 2:])
row = torch.empty(4, 6, device="npu")
row.copy_(y[:1])
seen["broadcast"] = torch.equal(row.cpu(), x[:1].expand(4, 6))
pinned = x.pin_memory().to("npu", non_blocking=True)
torch.npu.synchronize()
seen["pinned"] = torch.equal(pinned.cpu(), x)
seen["zeros"] = torch.zeros(5, device="npu").cpu().tolist()
seen["second device"] = torch.equal(y.to("npu:1").cpu(), x)
seen["fp8"] = [
    torch.equal(t.npu().cpu().view(torch.uint8), t.view(torch.uint8))
    for t in (
        torch.arange(64, dtype=torch.uint8).view(kind) for kind in (torch.float8_e4m3fn, torch.float8_e8m0fnu)
    )
]

start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
side = torch.npu.Stream()
with torch.npu.stream(side):
    start.record()
    copied = y.clone()
    end.record()
end.synchronize()
seen["event reached"] = end.query() and side.query()
seen["elapsed"] = start.elapsed_time(end)
seen["side stream"] = torch.equal(copied.cpu(), x)
print(json.dumps(seen))
