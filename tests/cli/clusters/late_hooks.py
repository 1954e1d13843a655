"""Hooks for Ray's processes that wait until what they change is imported.

Ray calls a hook in every process that it starts, and most of these import nothing from purerec: importing it in all
of them would take longer than the tests.
"""

import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec


class _Late(MetaPathFinder):
    def __init__(self, hook, *names):
        self.hook, self.names = hook, names

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            importlib.import_module(self.hook).install()

        spec.loader.exec_module = execute_and_change
        return spec


def workers_die():
    sys.meta_path.insert(0, _Late("cli.dying_worker", "purerec.engines.distributed.crew"))


def helpers_die():
    names = "purerec.output.partitions", "purerec.evaluation.protocols"
    sys.meta_path.insert(0, _Late("cli.clusters.dying_helper", *names))
