"""torch.jit.annotations: names of types for annotations."""
from typing import *  # noqa: F401,F403
from typing import List

# A number where a list of so many is expected: BroadcastingList2[int].
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = List
