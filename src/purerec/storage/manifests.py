"""The marker of a folder that purerec wrote: `manifest.json`.

    format             version of the folder format; readers accept their own and older ones
    kind               model, split, checkpoint, run or vectors
    purerec            version of the package
    files              the names of all files in the folder; it is replaced only if it holds no others
    tensors_sha256     of tensors.safetensors, if there is such a file
    manifest_sha256    of everything else in the manifest, as JSON with sorted keys and without spaces

Format 1 had neither `files` nor `manifest_sha256`, and is read without them. From format 2 on, a manifest without its
checksum is an error, like one with a wrong checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from purerec.errors import ConfigError, StoreError
from purerec.storage.paths import AnyPath, status, why

FORMAT = 2
"""Version of the folder format"""
MANIFEST, TENSORS = "manifest.json", "tensors.safetensors"
HEAD = ("format", "kind", "purerec", "files", "tensors_sha256", "manifest_sha256")
"""Names in a manifest that facts may not use"""

_FILES_OF_FORMAT_1 = {MANIFEST, TENSORS, "report.html", "items.parquet", "users.parquet", "items.usearch"}
_DEPTH = 32
"""Maximum nesting of a manifest: code that traverses it may be recursive"""


def write_manifest(folder: Path, *, kind: str, facts: Mapping[str, Any], tensors_sha256: str | None = None) -> None:
    """Complete a folder that already has everything else."""
    from purerec import __version__

    if taken := set(HEAD) & set(facts):
        raise ConfigError(f"{min(taken)!r} has a meaning of its own in a manifest; give that fact another name")
    head = {
        "format": FORMAT,
        "kind": kind,
        "purerec": __version__,
        "files": sorted({MANIFEST, *os.listdir(folder)}),
        **({} if tensors_sha256 is None else {"tensors_sha256": tensors_sha256}),
        **facts,
    }
    head = json.loads(json.dumps(head))  # as it will be when read
    head["manifest_sha256"] = manifest_digest(head)
    # What UTF-8 cannot encode (a file name in another encoding) becomes an escape that is valid JSON.
    content = (json.dumps(head, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    write_synced(folder / MANIFEST, content)


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """The checksum of everything except the checksum itself."""
    rest = {name: value for name, value in manifest.items() if name != "manifest_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(path: AnyPath, *, kind: str) -> dict[str, Any]:
    """The manifest of a folder, checked for kind, format and damage."""
    folder = Path(path)
    found = status(folder)
    if found is None or not folder.is_dir():
        what = "does not exist" if found is None else "is not a folder"
        written = "give a folder written by `purerec fit --out`"
        raise StoreError(f"{folder} {what}", f"{written} or model.save()", command=written)
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{folder} has no {MANIFEST}: incomplete, or not from purerec; check the path") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder}: {MANIFEST} is damaged ({why(error)})") from None
    except RecursionError:
        raise StoreError(f"{folder}: {MANIFEST} is damaged (it is nested too deeply)") from None
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise StoreError(f"{folder}: {MANIFEST} was not written by purerec")
    if _depth(manifest) > _DEPTH:
        raise StoreError(f"{folder}: {MANIFEST} is damaged (it is nested too deeply)")
    if manifest["format"] > FORMAT:
        raise StoreError(
            f"{folder} has format {manifest['format']}, written by purerec {manifest.get('purerec')}; "
            f"this version reads up to {FORMAT}: upgrade purerec"
        )
    if manifest.get("kind") != kind:
        raise StoreError(f"{folder} holds a {manifest.get('kind')!r}, not a {kind!r}")
    has_digest = manifest["format"] > 1 or "manifest_sha256" in manifest
    if has_digest and manifest.get("manifest_sha256") != manifest_digest(manifest):
        raise StoreError(
            f"{folder}: {MANIFEST} is damaged (its checksum differs from what it holds); "
            "restore it from a copy or fit again"
        )
    return manifest


def marker(folder: Path) -> tuple[str, set[str]] | None:
    """The kind of a purerec folder, damaged or not, and the files that belong to it; None for other folders."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int) or "purerec" not in manifest:
        return None
    files, kind = manifest.get("files"), manifest.get("kind")
    if not isinstance(kind, str):
        return None
    if isinstance(files, list):
        return kind, {MANIFEST, *(name for name in files if isinstance(name, str))}
    return kind, _FILES_OF_FORMAT_1


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= _DEPTH:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth
