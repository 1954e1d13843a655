"""Workers that are killed (SIGKILL) once: one while it writes lists, one just before it ranks.

See `test_lists` and `test_evaluations`.
"""

import os
import signal
from pathlib import Path

from purerec.evaluation import protocols
from purerec.output import partitions


def install():
    write_parts, ranks = partitions.write_parts, protocols.ranks

    def writing(path, parts):
        def dying():
            for part in parts:
                yield part
                die_once("writing")

        return write_parts(path, dying())

    def ranking(*args, **options):
        die_once("ranking")
        return ranks(*args, **options)

    partitions.write_parts, protocols.ranks = writing, ranking


def die_once(doing):
    told = Path(os.environ["DYING_TOLD"], doing)
    if not told.exists():
        told.touch()
        os.kill(os.getpid(), signal.SIGKILL)
