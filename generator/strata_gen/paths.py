"""Where the project's own folders are: in the checkout around this package, or inside it when it is installed."""

from __future__ import annotations

from pathlib import Path

from strata_gen.errors import GeneratorError

DATA_FOLDER = "data"
"""Folder of the installed package that holds what a checkout has beside it."""

_PACKAGE = Path(__file__).resolve().parent


def checkout_root() -> Path | None:
    """Return the checkout that this package is part of; None when it was installed from a wheel."""
    root = _PACKAGE.parents[1]
    return root if (root / "specs").is_dir() and (root / "pyproject.toml").is_file() else None


def require_checkout(mend: str) -> Path:
    """Return the checkout. Raises `GeneratorError`, with what to do instead, when there is none."""
    root = checkout_root()
    if root is None:
        raise GeneratorError("strata-gen was installed without its checkout", where=str(_PACKAGE), mend=mend)
    return root


def project_root() -> Path:
    """Return the folder with specs/, templates/, runtime/ and CMakeLists.txt. Raises `GeneratorError` without one."""
    root = checkout_root() or _PACKAGE / DATA_FOLDER
    if not (root / "specs").is_dir():
        raise GeneratorError(
            "the project's specs are neither beside the strata_gen package nor inside it",
            where=str(root / "specs"),
            mend="install a wheel of 'strata-gen wheel --generator', or a checkout with 'pip install -e .'",
        )
    return root


def specs_root() -> Path:
    """Return the folder of the project's own specs."""
    return project_root() / "specs"


def templates_root() -> Path:
    """Return the folder of the jinja2 templates."""
    return project_root() / "templates"


def runtime_root() -> Path:
    """Return the folder of the hand-written C++ (`include/`, `src/`); in a checkout it has the runtime package too."""
    return project_root() / "runtime"


def default_out() -> Path:
    """Return the folder of build output: `build/` of the checkout, else of the working directory."""
    return (checkout_root() or Path.cwd()) / "build"


def default_dist() -> Path:
    """Return the folder of wheels: `dist/` of the checkout, else of the working directory."""
    return (checkout_root() or Path.cwd()) / "dist"
