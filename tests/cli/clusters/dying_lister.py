"""A worker that makes lists and is killed (SIGKILL) once, in the middle of writing; see `test_lists`."""

import os
import signal
from pathlib import Path

from purerec.output import partitions


def install():
    write_parts = partitions.write_parts

    def mortal(path, parts):
        def dying():
            for part in parts:
                yield part
                told = Path(os.environ["DYING_TOLD"])
                if not told.exists():
                    told.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        return write_parts(path, dying())

    partitions.write_parts = mortal
