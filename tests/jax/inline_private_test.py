"""The cache is its user's alone: what others may have written is not loaded."""

import os
import pathlib
import stat

import inline_data
import pytest
from common import raises
from inline_data import build

from xla_ffi_kit.compile import cache, commands
from xla_ffi_kit.errors import BuildError

folder = inline_data.folder


@pytest.fixture
def unread(monkeypatch):
    """Nothing of the cache is read."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"read {args}")

    def unreadable():
        monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
        monkeypatch.setattr(cache, "digest_of", refuse)

    return unreadable


def refused(folder, problem):
    return raises(
        BuildError,
        f"f: the cache folder {folder}/cache cannot be used: {problem} "
        "XLA_FFI_KIT_CACHE to a folder of your own",
    )


def test_the_cache_of_another_user(folder, monkeypatch, unread):
    build()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    unread()
    said = f"{folder}/cache belongs to another user, {uid}; set"
    with refused(folder, said):
        build()


@pytest.mark.parametrize("mode", [0o702, 0o720])
def test_a_cache_that_others_may_write(folder, mode, unread):
    build()
    (folder / "cache").chmod(mode)
    unread()
    said = (
        f"others may write to {folder}/cache (mode {mode:o}); run `chmod 700 "
        f"{folder}/cache`, or set"
    )
    with refused(folder, said):
        build()


def test_a_link_to_the_cache_is_followed_once(folder, monkeypatch):
    (folder / "link").symlink_to("cache")
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(folder / "link"))
    assert build()[1].parent.parent == folder / "cache"
    (folder / "cache").chmod(0o777)
    with pytest.raises(BuildError, match=f"may write to {folder}/cache "):
        build()


def test_nobody_else_can_write_what_the_kit_writes(folder, monkeypatch):
    new = folder / "new" / "deeper"
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(new))
    old = os.umask(0)
    try:
        first = build()
        assert build() == first
    finally:
        os.umask(old)
    for path in (new, new.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (
            "/dev/null",
            "the cache folder /dev/null cannot be used: it is no folder; set "
            "XLA_FFI_KIT_CACHE to a folder of your own",
        ),
        (
            "~no such user/x",
            "XLA_FFI_KIT_CACHE: expected a folder, got '~no such user/x', "
            "where there is no such user",
        ),
    ],
)
def test_a_cache_that_is_no_folder(monkeypatch, capsys, chosen, said):
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", chosen)
    with raises(BuildError, f"f: {said}"):
        build()
    assert commands.cache([]) == 1
    assert capsys.readouterr().err == f"{said}\n"
