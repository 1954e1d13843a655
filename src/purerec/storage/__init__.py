"""Everything that purerec writes, and how it is read back.

    folders      folders of `manifest.json` and `tensors.safetensors`: a model (see `models.contract.model_folder`), a
                 split, a checkpoint or a run. No pickle.
    manifests    the marker of such a folder: its kind, format, files and checksums
    structure    whether tensors have the shapes and values that the code using them relies on
    packing      ids, strings and logs as tensors
    item_tables  what is known about items
    splits       the parts of a split
    state_parts  a state in parts, each written by a different process
    snapshots    a folder's tensors in memory shared by several processes
    files        single files, devices and pipes
    toml_files   TOML that is read, with a known set of keys
    ingest/      from files of any size to a data set in parts
    paths        what is at a path
    outputs      which outputs of a command would destroy its inputs or each other
    swapping     how a finished folder replaces an old one, in one step
    temporary    names of unfinished files, and cleaning up after dead processes
    locks        one process at a time

One rule applies throughout: purerec replaces a folder only if it carries purerec's own marker of the same kind and
contains nothing else, never an input, and writes directly to whatever is not a regular file. What is being written
has a temporary name until it is complete, so that a reader never sees half of it, whatever happens to the writer.

May import errors to sampling, in the order of CONTRIBUTING.md.
"""

from purerec.storage.files import check_file, open_output, write_file
from purerec.storage.folders import (
    Stored,
    check_target,
    complete_folder,
    discard,
    new_folder,
    read_folder,
    remove_folder,
    write_folder,
)
from purerec.storage.item_tables import pack_item_table, unpack_item_table
from purerec.storage.locks import claimed, locked
from purerec.storage.manifests import FORMAT, HEAD, MANIFEST, TENSORS, read_manifest, write_manifest
from purerec.storage.outputs import check_outputs
from purerec.storage.packing import (
    pack_interactions,
    pack_strings,
    pack_vocabulary,
    unpack_interactions,
    unpack_strings,
    unpack_vocabulary,
)
from purerec.storage.paths import beside
from purerec.storage.snapshots import Snapshot, take_snapshot
from purerec.storage.splits import load_split, save_split
from purerec.storage.state_parts import Digests, check_complete, whole_state
from purerec.storage.structure import Layout, Part, Tensors, check_csr, check_layout

__all__ = [
    "FORMAT",
    "HEAD",
    "MANIFEST",
    "TENSORS",
    "Digests",
    "Layout",
    "Part",
    "Snapshot",
    "Stored",
    "Tensors",
    "beside",
    "check_complete",
    "check_csr",
    "check_file",
    "check_layout",
    "check_outputs",
    "check_target",
    "claimed",
    "complete_folder",
    "discard",
    "load_split",
    "locked",
    "new_folder",
    "open_output",
    "pack_interactions",
    "pack_item_table",
    "pack_strings",
    "pack_vocabulary",
    "read_folder",
    "read_manifest",
    "remove_folder",
    "save_split",
    "take_snapshot",
    "unpack_interactions",
    "unpack_item_table",
    "unpack_strings",
    "unpack_vocabulary",
    "whole_state",
    "write_file",
    "write_folder",
    "write_manifest",
]
