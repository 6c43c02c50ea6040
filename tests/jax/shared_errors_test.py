"""What FfiOp says of a wrong `shared`, and of operands that do not fit it."""

import numpy as np
import pytest
from inline_data import raises

from xla_ffi_kit import Advanced, FfiOp


def spec(**changes):
    given = {"kernel_axes": 1, "handlers": {}, "shared": "w"}
    return FfiOp("test.shared", lambda x, w: x * w, **(given | changes))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shared": "ww"}, "shared: expected 'w', got 'ww'"),
        (
            {"shared": 1},
            "shared: expected a name of the operands x, w, got 1",
        ),
        (
            {"shared": (), "advanced": Advanced(shared_results=0)},
            "shared_results: expected none without shared operands, got 0",
        ),
        (
            {"advanced": Advanced(vmap_method="sequential")},
            "vmap_method: expected 'broadcast_all' with shared operands, got "
            "'sequential'",
        ),
    ],
)
def test_bad_spec(wrong, message):
    with raises(ValueError, f"test.shared: {message}"):
        spec(**wrong)


def test_bad_operands():
    said = (
        "test.shared: operand w: expected no batch dimensions, or the first "
        "ones of [2] as operand x has, got [3]"
    )
    with raises(ValueError, said):
        spec()(np.ones((2, 3)), np.ones((3, 3)))
    said = "test.shared: shared_results: expected results below 1, got 1"
    with raises(ValueError, said):
        spec(advanced=Advanced(shared_results=1))(np.ones((2, 3)), np.ones(3))
