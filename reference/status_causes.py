"""What usually causes a status code, where many codes share the cause."""

from __future__ import annotations

REPORT = "Save the call as a bundle, read the device log (plog) and report the two together."
HANDLE = (
    "A handle was used after it was destroyed, or never existed: keep executors and tensors alive until "
    "the stream is synchronised."
)
PACKAGE = (
    "The operator package does not fit this CANN installation: reinstall ops and toolkit of one version; "
    "gmmfr doctor lists both."
)
DEVICE = "The device, its driver or its link failed: check npu-smi info and the driver log; reset the device."
OUT_OF_BOUNDS = (
    "A kernel touched memory outside its tensors. For this operator: a row_index outside 0..batch-1, "
    "group_list entries that add up to more than m rows, negative or decreasing entries, or a buffer "
    "freed before the stream was synchronised. Save the call as a bundle and run gmmfr validate on it: it"
    " reads the values."
)
