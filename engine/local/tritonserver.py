"""Owns where the files of a Triton installation lie and how its Python backend is put together.
Never starts a process.
Called by the Triton launcher, and by whoever has to know whether it can run here.
"""

import hashlib
import importlib.util
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_INSTALL = "install Conch with the extra 'triton' (pip install 'conch[triton]') under Python 3.11 or 3.12"


class LocalTritonError(RuntimeError):
    """A local Triton cannot be started. The message lists every problem, each with its remedy.

    `problems` holds them one by one; `log_tail` the server's last lines, empty if it never ran.
    """

    def __init__(self, server: str, problems: Sequence[str], log_tail: str = "") -> None:
        self.problems = tuple(problems)
        self.log_tail = log_tail
        lines = [f"{server}: {problem}" for problem in problems]
        if log_tail:
            lines.append(f"last lines of its log:\n{log_tail}")
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class TritonBinaries:
    """The files of one Triton installation that a CPU server with Python models needs."""

    server: Path
    python_backend: tuple[Path, ...]
    """What has to lie together in `<backend directory>/python`: library, module, stub of this Python."""
    library_path: str
    """LD_LIBRARY_PATH of the server and its stubs."""


def find_tritonserver(folder: Path | None = None) -> TritonBinaries:
    """The `tritonserver` in `folder`, by default the one of the `nvidia-pytriton` wheel.

    `folder` holds `bin/tritonserver` and `backends/python`, as the wheel's `pytriton/tritonserver` or an
    installation under `/opt/tritonserver` does. Raises LocalTritonError that names every missing file.
    """
    if folder is None:
        spec = importlib.util.find_spec("pytriton")
        if spec is None or spec.origin is None:
            raise LocalTritonError("tritonserver", [f"the package nvidia-pytriton is missing: {_INSTALL}"])
        folder = Path(spec.origin).parent / "tritonserver"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    backend = folder / "backends" / "python"
    stubs = folder / "python_backend_stubs"
    stub_folder = stubs / version if stubs.is_dir() else backend
    binaries = TritonBinaries(
        server=folder / "bin" / "tritonserver",
        python_backend=(
            backend / "libtriton_python.so",
            backend / "triton_python_backend_utils.py",
            stub_folder / "triton_python_backend_stub",
        ),
        library_path=_library_path(folder),
    )
    needed = (binaries.server, *binaries.python_backend)
    problems = [f"{path} is missing (Python {version}): {_INSTALL}" for path in needed if not path.is_file()]
    if importlib.util.find_spec("numpy") is None:
        problems.append(f"the package numpy is missing, Python models need it: {_INSTALL}")
    if problems:
        raise LocalTritonError("tritonserver", problems)
    return binaries


def _library_path(folder: Path) -> str:
    # The stub is linked against the shared library of the Python it runs, wherever that was installed.
    candidates = (folder.parent.parent / "nvidia_pytriton.libs", folder / "lib")
    python = sysconfig.get_config_var("LIBDIR")
    return ":".join([*(str(path) for path in candidates if path.is_dir()), *([python] if python else [])])


def backend_directory(binaries: TritonBinaries, cache: Path) -> Path:
    """A folder for `--backend-directory`, assembled once in `cache` for these binaries.

    The wheel keeps its stubs apart from the backend's library, one per Python version; Triton wants them
    together. Safe when several processes assemble it at once: the complete folder is moved into place.
    """
    key = hashlib.sha256("\n".join(map(str, binaries.python_backend)).encode()).hexdigest()[:12]
    target = cache / f"python{sys.version_info.major}.{sys.version_info.minor}-{key}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=cache))
    (draft / "python").mkdir()
    for path in binaries.python_backend:
        (draft / "python" / path.name).symlink_to(path)
    try:
        draft.rename(target)
    except OSError:
        shutil.rmtree(draft)
        if not target.is_dir():
            raise
    return target
