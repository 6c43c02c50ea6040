"""What is on: in the process, and in the blocks of a thread.

A block is a context manager around JAX's own user context, which holds the
setting. A change outside of blocks is the process's; inside, it ends with the
block.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading

from xla_ffi_accelerate import _setting, registry
from xla_ffi_accelerate._setting import OFF, Record, Setting


@dataclasses.dataclass(frozen=True)
class Change:
    """Names to switch on, in addition to earlier ones or instead of them.

    Attributes:
      names: the names.
      replaces: whether earlier names are switched off.
      exported: the names whose handlers exported programs call, too.
      record: collects what is lowered from now on.
    """

    names: frozenset[str] = frozenset()
    replaces: bool = False
    exported: frozenset[str] = frozenset()
    record: Record | None = None

    def of(self, before: Setting) -> Setting:
        """The setting after the change."""
        kept = OFF if self.replaces else before
        return _setting_of(
            kept.names | self.names,
            kept.exported | self.exported,
            self.record or before.record,
        )


class Block:
    """Applies a change to the thread that enters it, until it leaves it.

    It is reentrant, and several threads may enter it.
    """

    def __init__(self, change: Change) -> None:
        self._change = change

    def __enter__(self) -> Block:
        stack = contextlib.ExitStack()
        setting = self._change.of(_setting.current())
        stack.enter_context(_setting.using(setting))
        _thread.blocks.append(stack)
        return self

    def __exit__(self, *_: object) -> None:
        _thread.blocks.pop().close()


class _Thread(threading.local):
    """The contexts that end with each of a thread's blocks."""

    def __init__(self) -> None:
        self.blocks: list[contextlib.ExitStack] = []


_thread = _Thread()
# Held for a moment only; a forked child finds it free.
_lock = threading.RLock()
os.register_at_fork(
    before=_lock.acquire,
    after_in_parent=_lock.release,
    after_in_child=_lock.release,
)


def add(change: Change) -> None:
    """Changes the thread's innermost block, or else the process."""
    if _thread.blocks:
        setting = change.of(_setting.current())
        _thread.blocks[-1].enter_context(_setting.using(setting))
        return
    with _lock:
        _setting.set_process(change.of(_setting.current()))


def _setting_of(
    names: frozenset[str], exported: frozenset[str], record: Record | None
) -> Setting:
    """The one setting of these; JAX compares settings by identity."""
    if not (names or record):
        return OFF
    rules = tuple(registry.rules(names))
    find = _recording if record else _interned
    return find(names, rules, exported=exported, record=record)


_interned = functools.cache(Setting)
# Nobody asks for a record's again once it has ended.
_recording = functools.lru_cache(maxsize=8)(Setting)
