"""The vendor's enumerations beside data types: tensor formats, memory and copy kinds, system options.

Values from the ACL headers (acl_base.h, acl_rt.h); a test compares each with ``include/``.
"""

from __future__ import annotations

#: aclFormat, without the prefix ``ACL_FORMAT_``.
TENSOR_FORMATS: dict[str, int] = {
    "UNDEFINED": -1,
    "NCHW": 0,
    "NHWC": 1,
    "ND": 2,
    "NC1HWC0": 3,
    "FRACTAL_Z": 4,
    "NC1HWC0_C04": 12,
    "HWCN": 16,
    "NDHWC": 27,
    "FRACTAL_NZ": 29,
    "NCDHW": 30,
    "NDC1HWC0": 32,
    "FRACTAL_Z_3D": 33,
    "NC": 35,
    "NCL": 47,
    "FRACTAL_NZ_C0_16": 50,
    "FRACTAL_NZ_C0_32": 51,
    "FRACTAL_NZ_C0_2": 52,
    "FRACTAL_NZ_C0_4": 53,
    "FRACTAL_NZ_C0_8": 54,
}

#: The one enumerator whose name in the header lacks ``FORMAT_``.
FORMAT_ENUMERATORS: dict[str, str] = {
    name: "ACL_FRACTAL_Z_3D" if name == "FRACTAL_Z_3D" else f"ACL_FORMAT_{name}" for name in TENSOR_FORMATS
}

#: Formats of the vendor's internal layouts; the operator's checker calls them private.
PRIVATE_FORMATS = frozenset(
    {
        "NC1HWC0",
        "FRACTAL_Z",
        "NC1HWC0_C04",
        "FRACTAL_NZ",
        "NDC1HWC0",
        "FRACTAL_Z_3D",
        "FRACTAL_NZ_C0_16",
        "FRACTAL_NZ_C0_32",
        "FRACTAL_NZ_C0_2",
        "FRACTAL_NZ_C0_4",
        "FRACTAL_NZ_C0_8",
    }
)

#: aclrtMemMallocPolicy.
MALLOC_POLICIES: dict[str, int] = {
    "ACL_MEM_MALLOC_HUGE_FIRST": 0,
    "ACL_MEM_MALLOC_HUGE_ONLY": 1,
    "ACL_MEM_MALLOC_NORMAL_ONLY": 2,
    "ACL_MEM_MALLOC_HUGE_FIRST_P2P": 3,
    "ACL_MEM_MALLOC_HUGE_ONLY_P2P": 4,
    "ACL_MEM_MALLOC_NORMAL_ONLY_P2P": 5,
    "ACL_MEM_MALLOC_HUGE1G_ONLY": 6,
    "ACL_MEM_MALLOC_HUGE1G_ONLY_P2P": 7,
    "ACL_MEM_TYPE_LOW_BAND_WIDTH": 0x100,
    "ACL_MEM_TYPE_HIGH_BAND_WIDTH": 0x1000,
    "ACL_MEM_ACCESS_USER_SPACE_READONLY": 0x100000,
}

#: aclrtMemcpyKind.
MEMCPY_KINDS: dict[str, int] = {
    "ACL_MEMCPY_HOST_TO_HOST": 0,
    "ACL_MEMCPY_HOST_TO_DEVICE": 1,
    "ACL_MEMCPY_DEVICE_TO_HOST": 2,
    "ACL_MEMCPY_DEVICE_TO_DEVICE": 3,
    "ACL_MEMCPY_DEFAULT": 4,
    "ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE": 5,
    "ACL_MEMCPY_INNER_DEVICE_TO_DEVICE": 6,
    "ACL_MEMCPY_INTER_DEVICE_TO_DEVICE": 7,
}

#: aclrtMemAttr.
MEMORY_ATTRIBUTES: dict[str, int] = {
    "ACL_DDR_MEM": 0,
    "ACL_HBM_MEM": 1,
    "ACL_DDR_MEM_HUGE": 2,
    "ACL_DDR_MEM_NORMAL": 3,
    "ACL_HBM_MEM_HUGE": 4,
    "ACL_HBM_MEM_NORMAL": 5,
    "ACL_DDR_MEM_P2P_HUGE": 6,
    "ACL_DDR_MEM_P2P_NORMAL": 7,
    "ACL_HBM_MEM_P2P_HUGE": 8,
    "ACL_HBM_MEM_P2P_NORMAL": 9,
    "ACL_HBM_MEM_HUGE1G": 10,
    "ACL_HBM_MEM_P2P_HUGE1G": 11,
}

#: aclSysParamOpt.
SYSTEM_OPTIONS: dict[str, int] = {
    "ACL_OPT_DETERMINISTIC": 0,
    "ACL_OPT_ENABLE_DEBUG_KERNEL": 1,
    "ACL_OPT_STRONG_CONSISTENCY": 2,
}
