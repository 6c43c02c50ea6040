"""The benchmark compares JAX's own functions with what it says."""

import jax
import pytest

from bench import measure
from compare_jax import SUITE

jax.config.update("jax_enable_x64", True)
ALL = [*SUITE.cells()]
CELLS = {cell.name: cell for cell in ALL}


def test_names_are_unique_and_say_everything():
    assert len(CELLS) == len(ALL) > 150
    for name in CELLS:
        assert name.startswith("accelerate/") and len(name.split("/")) == 4


def test_every_target_and_every_bar_is_a_cell():
    assert {target.cell for target in SUITE.targets} <= CELLS.keys()
    assert set(SUITE.publication.in_words.values()) <= CELLS.keys()
    assert set(SUITE.quick) <= CELLS.keys()


def test_a_cell():
    name = "accelerate/isin,_by_default/16/fresh"
    measured = measure.measure(CELLS[name], seconds=0.01)
    assert measured.rounds >= 5
    assert {"xla", "kit"} <= measured.microseconds.keys()


@pytest.mark.parametrize(
    "name",
    [
        "sort_f32/1000",
        "argmax_f32/1000",
        "isin/1000000",
        "nonzero,_accelerated/1000000",
    ],
)
def test_what_stands_beside_jax_is_the_package(name):
    made = CELLS[f"accelerate/{name}/fresh"].make()
    assert "xla_ffi_accelerate." in made["kit"][0].as_text()
    assert "xla_ffi_accelerate." not in made["xla"][0].as_text()
