"""One flush for a whole file system: where it is trusted, and what it says when it fails."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from deermem.store import syncfs
from deermem.store.files import Files

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone has syncfs")


class Uname(NamedTuple):
    release: str


@contextmanager
def descriptor_of(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    syncfs._function.cache_clear()
    yield
    syncfs._function.cache_clear()


@linux
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs"])
def test_a_known_local_file_system_is_flushed_at_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncfs, "file_system", lambda device: kind)
    with descriptor_of(tmp_path) as descriptor:
        assert syncfs.can_flush_all(descriptor)
        Files().flush_all(descriptor, str(tmp_path))


@pytest.mark.parametrize("kind", ["", "overlay", "nfs4", "cifs", "fuse.sshfs", "fuseblk", "vfat", "ext2"])
def test_any_other_is_not(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncfs, "file_system", lambda device: kind)
    with descriptor_of(tmp_path) as descriptor:
        assert not syncfs.can_flush_all(descriptor)
    assert Files().open_for_all(str(tmp_path)) is None


OLD_KERNELS = ["5.7.19", "4.19.0-26-amd64", "odd"]
NEW_KERNELS = ["5.8.0", "5.15.0-91-generic", "6.18.44"]


@linux
@pytest.mark.parametrize("release", OLD_KERNELS + NEW_KERNELS)
def test_a_kernel_that_reports_no_failed_write_is_not_trusted(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncfs, "file_system", lambda device: "ext4")
    monkeypatch.setattr(os, "uname", lambda: Uname(release))
    with descriptor_of(tmp_path) as descriptor:
        assert syncfs.can_flush_all(descriptor) is (release in NEW_KERNELS)


@linux
def test_a_sandbox_that_refuses_the_call_is_noticed_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __call__(self, descriptor: int) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: {"syncfs": Refusing()})
    monkeypatch.setattr(syncfs, "file_system", lambda device: "ext4")
    with descriptor_of(tmp_path) as descriptor:
        assert not syncfs.can_flush_all(descriptor)
        with pytest.raises(OSError, match="not implemented") as raised:
            syncfs.flush_all(descriptor, "there")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSYS, "there")


@linux
def test_a_flush_that_failed_is_an_error_with_its_place(tmp_path: Path) -> None:
    with descriptor_of(tmp_path) as descriptor:
        pass
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        syncfs.flush_all(descriptor, str(tmp_path))
    assert raised.value.filename == str(tmp_path)
