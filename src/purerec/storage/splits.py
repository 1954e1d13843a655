"""Splits as folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from purerec.data.made import Made
from purerec.data.sharing import join
from purerec.data.splits import Split
from purerec.errors import StoreError
from purerec.storage.folders import read_folder, write_folder
from purerec.storage.packing import pack_interactions, unpack_interactions
from purerec.storage.paths import AnyPath


def save_split(split: Split, path: AnyPath) -> Path:
    """Write a split, with its data, to a folder that `load_split` reads."""
    parts = [split.train, *([split.valid] if split.valid is not None else []), split.test]
    whole = parts[0]
    for part in parts[1:]:
        whole = join(whole, part)
    facts, tensors = pack_interactions(whole)
    sizes = [len(part) for part in parts]
    manifest = {"data": facts, "made": split.made.to_dict(), "sizes": sizes}
    return write_folder(path, kind="split", manifest=manifest, tensors=tensors)


def load_split(path: AnyPath) -> Split:
    """Read a split that `save_split` wrote."""
    stored = read_folder(path, kind="split")
    try:
        whole = unpack_interactions(stored.manifest["data"], stored.tensors)
        sizes, made = stored.manifest["sizes"], Made.read(stored.manifest["made"])
        if len(sizes) not in (2, 3) or min(sizes) < 0 or sum(sizes) != len(whole):
            raise StoreError(f"parts of {sizes} rows do not make up {len(whole):,}")
        ends = np.cumsum(sizes)
        parts = [whole.subset(np.arange(start, end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        return Split(parts[0], parts[1] if len(parts) == 3 else None, parts[-1], made)
    except (KeyError, TypeError, ValueError, StoreError) as error:
        raise StoreError(f"{path} is not a valid split ({error}); make the split again") from None
