"""A good file, and what a refusal looks like."""

import re

import pytest

from purerec.data.readers import read
from purerec.data.text import contents
from purerec.errors import PurerecError, ReadError

GOOD = b"user,item,rating,timestamp\n" + b"".join(
    b"u%d,i%d,%d,%d\n" % (n % 17, n * 7 % 13, n % 5 + 1, 978_300_760 + 1000 * n) for n in range(300)
)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path, **options):
    """The message of a refusal: one line that begins with the path."""
    with pytest.raises(ReadError) as caught:
        read(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(contents.shown(path))
    assert re.search(r"; \w", message), "it names a remedy"
    return message


def ends_well(call, path):
    """True on success, False if it was refused on purpose; anything else is raised."""
    try:
        call(path)
    except PurerecError:
        return False
    return True
