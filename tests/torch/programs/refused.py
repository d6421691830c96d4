"""A call that the library must refuse; the error is torch_npu's.  Argument: group_list or row_index."""

import sys

import torch
import torch_npu

from gmmfr.torch_call import torch_arguments
from reference import make_case

(x, w, group_list), named = torch_arguments(make_case("c18_mxfp8"), "npu")
if sys.argv[1] == "group_list":
    group_list = group_list.cpu().int().npu()  # phase 1 takes INT64 alone
else:
    named["row_index"] = (named["row_index"].cpu() + 100).npu()  # out has 4 rows; found by the kernel
torch_npu.npu_grouped_matmul_finalize_routing(x, w, group_list, **named)
torch.npu.synchronize()
