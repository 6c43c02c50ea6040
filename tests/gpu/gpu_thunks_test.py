"""What gpu_thunks.py reads, on texts in the format of XLA's dumps."""

import pytest
from gpu_thunks import captured, read_dump

# relu and a fusion in CUDA graphs, `bwd` between them in none.
THUNKS = """\
000: kCommandBuffer\t
  001: kCustomCall\t
  002: kCustomCall\t
003: kCustomCall   \t
004: kCommandBuffer\t
  005: kKernel\tkernel=add, profile_annotation=add
006: kKernel       \tkernel=wrapped, profile_annotation=wrapped
"""
BEFORE = """\
001: kCustomCall\t
002: kCustomCall\t
003: kCustomCall\t
005: kKernel    \tkernel=add, profile_annotation=add
"""
METADATA = """\
thunk_metadata {
  thunk_info {
    profile_annotation: "command_buffer"
  }
  thunk_kind: "kCommandBuffer"
}
thunk_metadata {
  thunk_info {
    profile_annotation: "custom-call.1"
    thunk_id: 1
  }
  thunk_kind: "kCustomCall"
}
thunk_metadata {
  thunk_info { profile_annotation: "relu.2" execution_stream_id: 1 thunk_id: 2 }
  thunk_kind: "kCustomCall"
}
thunk_metadata {
  thunk_info {
    profile_annotation: "custom-call.3.0"
    thunk_id: 3
  }
  thunk_kind: "kCustomCall"
}
"""
HLO = """\
HloModule jit_f, is_scheduled=true

ENTRY %main.9 (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %custom-call.1 = f32[4]{0} custom-call(%x), custom_call_target="kit.norm"
  %relu.2 = f32[4]{0} custom-call(%custom-call.1), custom_call_target="kit.relu"
  %custom-call.3.0 = (f32[4]{0}, u8[64]{0}) custom-call(%relu.2), \
custom_call_target="kit.bwd", api_version=API_VERSION_TYPED_FFI
  %add = f32[4]{0} fusion(%custom-call.3.0), kind=kLoop, calls=%fused
  ROOT %wrapped = f32[4]{0} fusion(%add), kind=kLoop, calls=%fused
}
"""


def test_what_is_captured_and_what_is_not():
    assert captured(THUNKS, METADATA, HLO) == {
        "kit.norm": {True},
        "kit.relu": {True},
        "kit.bwd": {False},
    }


def test_a_fusion_that_is_captured_proves_nothing():
    only_fusion = THUNKS.replace("  001", "001").replace("  002", "002")
    assert "CommandBuffer" in only_fusion
    assert captured(only_fusion, METADATA, HLO) == {
        "kit.norm": {False},
        "kit.relu": {False},
        "kit.bwd": {False},
    }


def test_a_handler_of_which_one_call_is_captured():
    hlo = HLO.replace("kit.bwd", "kit.relu")
    assert captured(THUNKS, METADATA, hlo)["kit.relu"] == {True, False}


def test_thunks_within_others():
    nested = """\
000: kWhile\t
condition:
  001: kCustomCall\t
body:
  004: kCommandBuffer\t
    005: kConditional\t
      002: kCustomCall\t
  003: kCustomCall   \t
"""
    assert captured(nested, METADATA, HLO) == {
        "kit.norm": {False},
        "kit.relu": {True},
        "kit.bwd": {False},
    }


@pytest.mark.parametrize(
    "metadata, hlo",
    [
        (METADATA.replace("thunk_id: 3", "thunk_id: 8"), HLO),
        (METADATA, HLO.replace("custom-call.3.0 =", "custom-call.8 =")),
    ],
)
def test_a_call_that_nothing_names_is_an_error(metadata, hlo):
    with pytest.raises(ValueError, match="thunk 3 is the custom call"):
        captured(THUNKS, metadata, hlo)


@pytest.fixture
def dump(tmp_path):
    """A folder with the dump of f, and of another program."""
    files = {
        "thunk_sequence.txt": BEFORE,
        "thunk_sequence_after_thunk_passes.txt": THUNKS,
        "thunk_metadata.txt": METADATA,
        "sm_9.0_gpu_after_optimizations.txt": HLO,
        "sm_9.0_gpu_after_optimizations-buffer-assignment.txt": "",
    }
    for name, text in files.items():
        (tmp_path / f"module_0007.jit_f.{name}").write_text(text)
        (tmp_path / f"module_0009.jit_other.{name}").write_text("")
    return tmp_path


def test_the_thunks_after_the_passes_count(dump):
    assert read_dump(dump, "jit_f")["kit.norm"] == {True}


def test_where_no_pass_changed_anything_nothing_is_captured(dump):
    next(dump.glob("*.jit_f.*after_thunk_passes.txt")).unlink()
    assert read_dump(dump, "jit_f") == {
        "kit.norm": {False},
        "kit.relu": {False},
        "kit.bwd": {False},
    }


def test_a_dump_that_lacks_a_file_is_an_error(dump):
    next(dump.glob("*.jit_f.thunk_metadata.txt")).unlink()
    with pytest.raises(ValueError, match=r"expected one .*thunk_metadata.txt"):
        read_dump(dump, "jit_f")
