"""Replacing an old folder with a finished one.

If the system can exchange two names, this is one step: at any moment there is a complete folder, old or new.
Otherwise it takes two, and a process killed between them leaves the old folder under a temporary name, from which
`recover` restores it.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
from pathlib import Path

from purerec.storage.locks import try_lock
from purerec.storage.paths import sync_folder
from purerec.storage.temporary import abandoned, set_aside

_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)"""


def put_in_place(work: Path, target: Path) -> None:
    """Rename `work` to `target`; an existing folder of that name is renamed to `work`."""
    try:
        os.rename(work, target)  # enough if there is nothing yet, or an empty folder
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not exchange(work, target):
            _exchange_in_steps(work, target)
    sync_folder(target.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False if the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def _exchange_in_steps(work: Path, target: Path) -> None:
    aside = _aside(target)
    fd = os.open(target, os.O_RDONLY)
    try:
        try_lock(fd)  # marks it as not abandoned
        os.rename(target, aside)
        try:
            os.rename(work, target)
        except BaseException:
            os.rename(aside, target)
            raise
        os.rename(aside, work)
    finally:
        os.close(fd)


def recover(target: Path) -> None:
    """Restore a folder whose replacement was killed between the two steps."""
    aside = _aside(target)
    with abandoned(aside) as is_abandoned:
        if not is_abandoned:
            return
        if os.path.lexists(target):
            set_aside(aside)  # the new one is in place: remove this like any leftover
        else:
            os.rename(aside, target)


def _aside(target: Path) -> Path:
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return target.parent / f".purerec-{name}.replaced"
