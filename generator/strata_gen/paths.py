"""Where the project's own folders are: beside the package, in the checkout that it was installed from."""

from __future__ import annotations

from pathlib import Path

from strata_gen.errors import GeneratorError


def project_root() -> Path:
    """Return the checkout's root. Raises `GeneratorError` when the package was installed without its checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "specs").is_dir():
        raise GeneratorError(
            "the project's specs/ folder is not beside the strata_gen package",
            where=str(root),
            mend="install from a checkout with 'pip install -e .', or name the folder with --specs DIR",
        )
    return root


def specs_root() -> Path:
    """Return the folder of the project's own specs."""
    return project_root() / "specs"


def templates_root() -> Path:
    """Return the folder of the jinja2 templates."""
    return project_root() / "templates"


def runtime_root() -> Path:
    """Return the folder with the runtime package and its hand-written C++ (`include/`, `src/`)."""
    return project_root() / "runtime"
