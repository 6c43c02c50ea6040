"""Whether a file or folder is private: only root and this user can change it.

What is loaded from the cache runs with all rights of the user, so nobody else
may have had a hand in it. The rules are those by which OpenSSH takes a file of
keys: https://man.openbsd.org/sshd#AUTHORIZED_KEYS_FILE_FORMAT.
"""

from __future__ import annotations

import grp
import os
import pathlib
import pwd
import shlex
import stat

_ACL = "system.posix_acl_access"
_UID_MAP = pathlib.Path("/proc/self/uid_map")
_OVERFLOW_UID = pathlib.Path("/proc/sys/kernel/overflowuid")


def problem_of_folder(folder: pathlib.Path) -> str | None:
    """Why others could change what is in a folder, and the remedy; else None.

    The folders above it count as well, since who may write there can put
    another folder in its place. What does not exist yet has no problem.

    Args:
      folder: an absolute path without symbolic links.
    """
    for path in reversed(folder.parents):
        # In a sticky folder such as /tmp, only its owner removes a file.
        found = problem(path, is_above=True)
        if found:
            return found
    return problem(folder)


def problem(path: pathlib.Path, is_above: bool = False) -> str | None:
    """Why others could change one file or folder, and the remedy; else None.

    Args:
      path: the file or folder.
      is_above: whether it only has to keep a folder in its place.
    """
    try:
        about = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    quoted = shlex.quote(str(path))
    if stat.S_ISLNK(about.st_mode):
        return f"{path} is a symbolic link; remove it"
    is_own = about.st_uid in (0, os.geteuid())
    if not is_own and not (is_above and _may_be_root(about.st_uid)):
        return (
            f"{path} belongs to another user, {about.st_uid}; remove it, or "
            f"`chown {os.geteuid()} {quoted}` if what is in it is yours"
        )
    if is_above and about.st_mode & stat.S_ISVTX:
        return None
    by_others = about.st_mode & stat.S_IWOTH
    by_group = about.st_mode & stat.S_IWGRP
    if by_others or (by_group and not _is_private_group(path, about.st_gid)):
        return (
            f"others may write to {path} (mode {about.st_mode & 0o7777:o}); "
            f"run `chmod go-w {quoted}`"
        )
    return None


def _may_be_root(uid: int) -> bool:
    """Whether root may look like this user: where root has no number.

    In a user namespace, such as a build's sandbox, each user who is not mapped
    looks like the same one, and so do the owners of "/" and "/home".
    """
    try:
        overflow = int(_OVERFLOW_UID.read_text())
        mapped = [line.split()[0] for line in _UID_MAP.read_text().splitlines()]
    except OSError:
        return False
    return uid == overflow and "0" not in mapped


def close(path: pathlib.Path) -> None:
    """Lets nobody else write to a file, whatever the umask is."""
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o022)


def _is_private_group(path: pathlib.Path, gid: int) -> bool:
    """Whether a group has no member but this user, or root.

    Where the umask is 002 each user has a group of the same name. A group's
    list lacks those whose primary group it is, so its name has to tell.
    """
    try:
        os.getxattr(path, _ACL)
        return False  # the group's bits then stand for others, too
    except OSError:
        pass
    for uid in {0, os.geteuid()}:
        try:
            user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
        except KeyError:
            continue
        if (
            user.pw_gid == gid
            and group.gr_name == user.pw_name
            and set(group.gr_mem) <= {user.pw_name}
        ):
            return True
    return False
