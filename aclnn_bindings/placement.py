"""Where the arguments of a call are on the device: uploads, addresses, and the copy that protects x1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aclnn_bindings._acl import ffi, lib
from aclnn_bindings.memory import dense_memory, memory_of
from aclnn_bindings.preparation import X1_IN_USE, Preparation
from aclnn_bindings.resources import Resources
from aclnn_bindings.sources import Array, DeviceAddress, carrier_dtype, storage_image, strided_view
from aclnn_bindings.tensors import POSITION
from reference.problem import ARGUMENTS

Source = Array | DeviceAddress


class Placement:
    """Addresses of all arguments, in the order of the prototype; null arguments have address 0.

    Where the kernel destroys x1, the operator gets a block of its own: ``restore_x1`` fills it from
    ``x1_source``.
    """

    def __init__(
        self,
        preparation: Preparation,
        sources: Mapping[str, Source],
        out: Source | None,
        resources: Resources,
        protect_x1: bool,
    ) -> None:
        self._preparation = preparation
        self._resources = resources
        shared, slots = preparation.shared_bytes, preparation.slots
        self._shared = start = resources.memory(shared).address if shared else 0
        self._own: dict[str, int] = {}
        self.addresses = addresses = [0] * len(ARGUMENTS)
        arrays: dict[str, Array] = {}
        for name, source in sources.items():
            if isinstance(source, DeviceAddress):
                addresses[POSITION[name]] = self._use(name, source)
            else:
                address = start + slots[name] if start else self._reserve(name)
                addresses[POSITION[name]] = self._own[name] = address
                arrays[name] = source
        self.upload(arrays)
        if isinstance(out, DeviceAddress):
            self.addresses[POSITION["out"]] = self._use("out", out)
        elif "out" in preparation.specs:
            self.addresses[POSITION["out"]] = self._own["out"] = self._reserve("out")
        self.x1_source = self.addresses[0]
        self.protects_x1 = protect_x1
        if protect_x1:
            self.addresses[0] = self._reserve(X1_IN_USE)

    def _reserve(self, name: str) -> int:
        """Device memory of the call's own for one argument."""
        if self._shared:
            return self._shared + self._preparation.slots[name]
        return self._resources.memory(self._preparation.nbytes[name]).address

    def _use(self, name: str, source: DeviceAddress) -> int:
        """The address the operator gets for the caller's own memory: INT32 x2 past its offset."""
        self._resources.owners.append(source.owner)
        return source.address + self._preparation.address_shift(name)

    def upload(self, arrays: Mapping[str, Array]) -> None:
        """Copy host arrays into their arguments' memory; an array is read as it is where its layout fits."""
        preparation, own = self._preparation, self._own
        dense, nbytes = preparation.dense, preparation.nbytes
        targets, sizes, images = [], [], []
        for name, array in arrays.items():
            size = nbytes[name]
            if name in dense and array.flags.c_contiguous:
                image = dense_memory(array)
            else:
                stored = storage_image(name, array, preparation.specs[name], size)
                size, image = stored.nbytes, memory_of(stored)
            if size:
                targets.append(own[name])
                sizes.append(size)
                images.append(image)
        self._resources.context.memory.upload(targets, sizes, images)

    def bind(self, name: str, source: DeviceAddress) -> int:
        """Use other device memory of the caller for ``name``; the address that the operator must get."""
        address = self._use(name, source)
        if name == "x1":
            self.x1_source = address
        if name != "x1" or not self.protects_x1:
            self.addresses[POSITION[name]] = address
        return self.addresses[POSITION[name]]

    def restore_x1(self) -> None:
        """Queue the copy of x1 into the block that the kernel destroys."""
        nbytes = self._preparation.nbytes[X1_IN_USE]
        target, source = ffi.cast("void *", self.addresses[0]), ffi.cast("void *", self.x1_source)
        runtime = self._resources.context.runtime
        kind, stream = lib.ACL_MEMCPY_DEVICE_TO_DEVICE, self._resources.stream.pointer
        self._resources.pending = True
        status = runtime.functions.aclrtMemcpyAsync(target, nbytes, source, nbytes, kind, stream)
        if status:
            runtime.check(status, f"aclrtMemcpyAsync of x1, {nbytes} bytes on the device")

    def download(self, out: Array | None) -> Array:
        """Copy the output into ``out``, or into a new array; only the elements of the view are written."""
        spec = self._preparation.specs["out"]
        address = self._own.get("out")
        if address is None:
            raise ValueError("out: the result is in the caller's device memory; read it there")
        target = np.empty(spec.shape, carrier_dtype(spec.dtype)) if out is None else out
        if target.size == 0:
            return target
        if spec.strides is None and spec.offset == 0 and target.flags.c_contiguous:
            self._resources.context.memory.download(address, target)
            return target
        storage = np.empty(self._preparation.nbytes["out"] // target.itemsize, target.dtype)
        self._resources.context.memory.download(address, storage)
        target[...] = strided_view(storage, spec)
        return target
