"""A race on purpose: two writes to the same memory that nothing orders, with the checks off.

The long run starts this under ThreadSanitizer to see that it sees.
"""

from __future__ import annotations

from aclnn_bindings import simulator
from aclnn_bindings._acl import ffi

NBYTES = 64 << 20


def main() -> None:
    """Fill one block from a stream and from the host at the same time."""
    library = simulator()
    functions = library.functions
    with library.runtime.bind():
        functions.gmmfrSimSetChecks(False)
        memory, stream = ffi.new("void **"), ffi.new("aclrtStream *")
        library.check(functions.aclrtCreateStream(stream), "aclrtCreateStream")
        library.check(functions.aclrtMalloc(memory, NBYTES, 0), "aclrtMalloc")
        library.check(functions.aclrtMemsetAsync(memory[0], NBYTES, 1, NBYTES, stream[0]), "aclrtMemsetAsync")
        library.check(functions.aclrtMemset(memory[0], NBYTES, 2, NBYTES), "aclrtMemset")
        library.check(functions.aclrtSynchronizeStream(stream[0]), "aclrtSynchronizeStream")


if __name__ == "__main__":
    main()
