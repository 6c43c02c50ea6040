"""The cache is its user's alone: what others may have written is not loaded."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import stat
import tempfile

import pytest
from inline_builds import build

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings import cache, commands, private

STRANGER = 12345
# Users of most systems whose group has their name, and one whose has not.
BIN, SYNC = 2, 4


def can_chown():
    """Whether files can be given away: by root, and in no user namespace."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, STRANGER, STRANGER)
        except OSError:
            return False
        return True


CAN_CHOWN = can_chown()
as_root = pytest.mark.skipif(
    not CAN_CHOWN, reason="only root makes files of other users"
)


@pytest.fixture
def folder(monkeypatch):
    """A folder that every user reaches, with a cache that has an entry."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "parent").mkdir(mode=0o755)
        monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(folder / "parent/cache"))
        build()
        yield folder / "parent"


@contextlib.contextmanager
def user(uid):
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def refusal():
    with pytest.raises(BuildError) as caught:
        build()
    return str(caught.value)


def said(folder, problem):
    return (
        f"f: the cache folder {folder}/cache cannot be used: {problem}, or set "
        "XLA_FFI_KIT_CACHE to a folder of your own"
    )


def parts(folder):
    (place,) = (folder / "cache").iterdir()
    (library,) = place.glob("*.so")
    return {
        "parent": folder,
        "cache": folder / "cache",
        "entry": place,
        "entry.json": place / "entry.json",
        "library": library,
    }


PARTS = ["parent", "cache", "entry", "entry.json", "library"]


@pytest.fixture
def unread(monkeypatch):
    """Nothing of the cache is read, and nothing is loaded."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"read {args}")

    def unreadable():
        monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
        monkeypatch.setattr(cache, "digest_of", refuse)
        monkeypatch.setattr(ctypes, "CDLL", refuse)

    return unreadable


@as_root
@pytest.mark.parametrize("part", PARTS)
def test_what_belongs_to_another_user(folder, part, unread):
    path = parts(folder)[part]
    os.chown(path, STRANGER, -1)
    if part in ("parent", "cache", "entry"):
        unread()
    assert refusal() == said(
        folder,
        f"{path} belongs to another user, {STRANGER}; remove it, or `chown 0 "
        f"{path}` if what is in it is yours",
    )


@pytest.mark.parametrize("mode", [0o002, 0o020, 0o022, 0o1002])
@pytest.mark.parametrize("part", PARTS)
def test_what_others_may_write(folder, part, mode, unread):
    path = parts(folder)[part]
    path.chmod(path.stat().st_mode | mode)
    if CAN_CHOWN:
        os.chown(path, -1, STRANGER)
    elif mode == 0o020:
        pytest.skip("its group may be this user's own")
    if part == "parent" and mode & stat.S_ISVTX:
        build()  # as in /tmp: nobody but its owner can move the cache away
        return
    if part in ("parent", "cache", "entry"):
        unread()
    assert refusal() == said(
        folder,
        f"others may write to {path} (mode "
        f"{stat.S_IMODE(path.stat().st_mode):o}); run `chmod go-w {path}`",
    )
    path.chmod(path.stat().st_mode & ~0o022)
    if part == "library":
        build()


@as_root
def test_a_cache_that_a_stranger_made_before(folder):
    """In a sticky folder: no part of the path is this user's to check."""
    shutil.rmtree(folder / "cache")
    folder.chmod(0o1777)
    (folder / "cache").mkdir()
    os.chown(folder / "cache", STRANGER, -1)
    assert "belongs to another user" in refusal()
    assert list((folder / "cache").iterdir()) == []


@pytest.mark.parametrize("part", ["entry", "entry.json", "library"])
def test_a_link_is_no_entry(folder, part):
    path = parts(folder)[part]
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")
    assert refusal() == said(folder, f"{path} is a symbolic link; remove it")


def test_a_link_to_the_cache_is_followed_once(folder, monkeypatch):
    (folder / "link").symlink_to("cache")
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(folder / "link"))
    assert build()[1].parent.parent == folder / "cache"
    (folder / "cache").chmod(0o777)
    assert f"others may write to {folder}/cache " in refusal()


@as_root
def test_a_private_group_is_no_stranger(folder):
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, BIN, BIN)
        path.chmod(path.stat().st_mode | 0o020)
    os.chown(folder.parent, BIN, BIN)
    with user(BIN):
        old = os.umask(0o002)
        try:
            first = build()
            assert build() == first
            assert build("int g;\n") != first
        finally:
            os.umask(old)
    with user(SYNC):  # to whom it does not belong
        assert "belongs to another user" in refusal()


@as_root
def test_a_group_of_another_name_is_one(folder):
    group = os.stat("/etc/shadow").st_gid
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, SYNC, 65534)  # its primary group, which others have too
    (folder / "cache").chmod(0o770)
    with user(SYNC):
        assert "others may write" in refusal()
    os.chown(folder / "cache", SYNC, group)
    with user(SYNC):
        assert "others may write" in refusal()


@as_root
def test_an_access_list_is_no_private_group(folder, monkeypatch):
    (folder / "cache").chmod(0o770)
    build()
    monkeypatch.setattr(os, "getxattr", lambda *args: b"a list")
    assert "others may write" in refusal()


@as_root
@pytest.mark.parametrize("part", ["parent", "cache"])
def test_in_a_user_namespace_root_may_have_no_number(folder, monkeypatch, part):
    unmapped = int(private._OVERFLOW_UID.read_text())
    os.chown(parts(folder)[part], unmapped, unmapped)
    assert "belongs to another user" in refusal()
    (folder / "uid_map").write_text("      1000       1000          1\n")
    monkeypatch.setattr(private, "_UID_MAP", folder / "uid_map")
    if part == "cache":  # which has to be this user's own
        assert "belongs to another user" in refusal()
        return
    build()
    folder.chmod(0o775)
    assert "others may write" in refusal()


@as_root
def test_roots_cache_serves_others(folder):
    found = build()
    (folder / "cache").chmod(0o755)
    with user(STRANGER):
        assert build() == found
        with pytest.raises(BuildError, match="Permission denied"):
            build("int g;\n")


def test_nobody_else_can_write_what_the_kit_writes(folder, monkeypatch):
    new = folder / "new" / "deeper"
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(new))
    old = os.umask(0)
    try:
        first = build()
        assert build() == first
    finally:
        os.umask(old)
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    assert stat.S_IMODE(new.parent.stat().st_mode) == 0o700
    for path in new.rglob("*"):
        assert not path.stat().st_mode & 0o022, path


def test_listing_and_clearing_are_refused(folder, capsys):
    (folder / "cache").chmod(0o777)
    for arguments in ([], ["--clear"]):
        assert commands.cache(arguments) == 1
        assert "run `chmod go-w " in capsys.readouterr().err
    assert (folder / "cache").exists() and parts(folder)


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
    with pytest.raises(BuildError) as caught:
        build()
    assert str(caught.value) == f"f: {said}"
    assert commands.cache([]) == 1
    assert capsys.readouterr().err == f"{said}\n"


def test_a_name_with_spaces_is_quoted(tmp_path):
    path = tmp_path / "a b"
    path.mkdir()
    path.chmod(0o777)
    assert private.problem(path).endswith(f"run `chmod go-w '{path}'`")
