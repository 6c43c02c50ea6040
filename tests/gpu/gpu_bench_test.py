"""The GPU's benchmark runs, on the CPU."""

import gpu_bench


def test_a_cell_of_each_kind_is_measured():
    found = {}
    for cell in gpu_bench.cells(4096):
        found.setdefault(cell[0].partition("/")[0], cell)
    assert {"rms_norm", "rms_norm_bwd", "relu", "modular_add"} <= found.keys()
    gpu_bench._ROTATION_BYTES = 1 << 10
    for cell in found.values():
        times = gpu_bench.measure(cell, 0)
        assert times.keys() == {"kit", "xla", "copy"}
        assert min(times.values()) > 0
