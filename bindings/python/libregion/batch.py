"""Many changes in one call."""

from __future__ import annotations

from ctypes import byref, sizeof
from typing import TYPE_CHECKING, Literal, Union

from . import _constants as c
from ._call import give, take
from ._convert import to_bytes
from ._library import lib
from ._pack import Ops, results
from ._structs import region_op_result_t
from .errors import OpResult
from .options import CommitInfo, IncrementOptions, write_options

if TYPE_CHECKING:
    from ._convert import BytesLike
    from ._pack import Family
    from .region import Region

Comparison = Literal["==", "!=", "<", "<=", ">", ">=", "exists", "absent"]
_CHECKS = {
    "==": c.CHECK_EQ,
    "!=": c.CHECK_NE,
    "<": c.CHECK_LT,
    "<=": c.CHECK_LE,
    ">": c.CHECK_GT,
    ">=": c.CHECK_GE,
    "exists": c.CHECK_EXISTS,
    "absent": c.CHECK_ABSENT,
}


class Batch:
    """Collects changes and sends them in one call when its `with` block ends, or at `commit()`; if the block raises, nothing
    is sent.

    Consecutive operations on one row are one atomic change of it, in the order given. Rows are independent unless atomic.
    A check or bound that is not met is an outcome, not an error: look at `applied`, or at `results` for each operation.
    """

    def __init__(self, region: Region, atomic: bool, options: IncrementOptions) -> None:
        self._region = region
        self._ops = Ops()
        self._id = region._family_id
        self.info: CommitInfo = options.setdefault("info", CommitInfo())
        """The highest commit of the call."""
        self._options = write_options(options, c.W_ATOMIC if atomic else 0)
        self.results: list[OpResult] = []
        """One for each operation, once the batch was sent."""
        self.applied = False
        """Every operation was applied, and every check held."""
        self._done = False

    def __len__(self) -> int:
        return self._ops.n

    def put(self, row: BytesLike, family: Family, qual: BytesLike, value: BytesLike, *, timestamp: int = 0) -> Batch:
        """Stores a value."""
        return self._add(c.OP_PUT, row, self._id(family), qual, value, timestamp=timestamp)

    def increment(self, row: BytesLike, family: Family, qual: BytesLike, delta: int = 1) -> Batch:
        """Adds to a counter; the new value is in `results`."""
        return self._add(c.OP_INCREMENT, row, self._id(family), qual, delta=delta)

    def append(self, row: BytesLike, family: Family, qual: BytesLike, suffix: BytesLike) -> Batch:
        """Adds bytes to the end of a value."""
        return self._add(c.OP_APPEND, row, self._id(family), qual, suffix)

    def delete(self, row: BytesLike, family: Family, qual: BytesLike) -> Batch:
        """All versions of a column."""
        return self._add(c.OP_DELETE, row, self._id(family), qual)

    def delete_version(self, row: BytesLike, family: Family, qual: BytesLike, *, timestamp: int = 0) -> Batch:
        """One version of a column: the newest, or that of a timestamp."""
        return self._add(c.OP_DELETE_VERSION, row, self._id(family), qual, timestamp=timestamp)

    def delete_family(self, row: BytesLike, family: Family) -> Batch:
        """All columns of a family in a row."""
        return self._add(c.OP_DELETE_FAMILY, row, self._id(family))

    def delete_family_version(self, row: BytesLike, family: Family, *, timestamp: int) -> Batch:
        """What the columns of a family in a row have at exactly this timestamp."""
        return self._add(c.OP_DELETE_FAMILY_VERSION, row, self._id(family), timestamp=timestamp)

    def delete_row(self, row: BytesLike) -> Batch:
        """All families of a row."""
        return self._add(c.OP_DELETE_ROW, row, 0)

    def check(
        self, row: BytesLike, family: Family, qual: BytesLike, comparison: Comparison, expected: Union[int, BytesLike, None] = None
    ) -> Batch:
        """A condition on its row's changes (atomic: on all): `stored comparison expected`. An int compares the counter."""
        if comparison not in _CHECKS:
            raise ValueError(f"comparison: {comparison!r} is none of {', '.join(_CHECKS)}")
        if (expected is None) != (comparison in ("exists", "absent")):
            raise TypeError(f"{comparison!r} {'needs' if expected is None else 'takes no'} expected value")
        flags = _CHECKS[comparison]
        if isinstance(expected, int):
            return self._add(c.OP_CHECK, row, self._id(family), qual, flags=flags | c.CHECK_I64, delta=expected)
        return self._add(c.OP_CHECK, row, self._id(family), qual, b"" if expected is None else to_bytes(expected, "expected"), flags)

    def _add(
        self, op: int, row: BytesLike, family: int, qual: BytesLike = b"", value: BytesLike = b"", flags: int = 0, delta: int = 0,
        timestamp: int = 0,
    ) -> Batch:  # fmt: skip
        if self._done:
            raise RuntimeError("the batch has been sent")
        self._ops.add(op, row, family, qual, value, flags, delta, timestamp)
        return self

    def commit(self) -> list[OpResult]:
        """Sends it. After a failure that is `retryable` it may be called again."""
        if self._done:
            raise RuntimeError("the batch has been sent")
        region, n = self._region, self._ops.n
        if n == 0:
            self._done = self.applied = True
            return []
        packed = self._ops.packed()
        buffer = bytearray(n * sizeof(region_op_result_t))
        s = take()
        rc: int = lib.region_batch_mutate_packed(
            region._handle,
            packed,
            len(packed),
            n,
            self._options,
            byref(region_op_result_t.from_buffer(buffer)),
            sizeof(region_op_result_t),
            s.err_ref,
        )
        self.results = results(buffer)
        if rc not in (c.OK, c.NOT_APPLIED):
            error = region._fail(rc, s, results=self.results)
            # Sent again, what was applied (or may have been) would count twice.
            self._done = rc in (c.E_PARTIAL, c.E_OUTCOME_UNKNOWN) and not error.retryable
            raise error
        give(s)
        self._done, self.applied = True, rc == c.OK
        return self.results

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and not self._done:
            self.commit()
