"""Owns how this project writes zip archives: the same files give the same bytes."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Collection, Mapping

OLDEST = (1980, 1, 1, 0, 0, 0)  # the date of every entry: a zip's first possible one


def zip_of(files: Mapping[str, bytes], executable: Collection[str] = ()) -> bytes:
    """A zip whose bytes depend on the files alone: no dates, no owners, one order."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, OLDEST)
            entry.create_system = 3  # Unix, wherever it was written
            entry.external_attr = (stat.S_IFREG | (0o755 if name in executable else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return stream.getvalue()
