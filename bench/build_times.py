"""How long the generator takes: a cold build, one with nothing changed, one after a knob's default changed, and help.

Works on a copy of the specs and in a folder of its own; the artifact cache is off.

    python bench/build_times.py --knob pool.spin=100us
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, report, spread

from strata_runtime.bench.columns import table

HELP_RUNS = 20
HEAVY = ("torch", "numpy", "pydantic", "jinja2", "yaml")
COMMAND = Path(sys.executable).with_name("strata-gen")

LOADED_BY_HELP = """
import sys
from strata_gen.cli.main import main
sys.argv = ["strata-gen", "--help"]
try:
    main()
except SystemExit:
    pass
print(*sorted(set(sys.modules) & set({heavy!r})), file=sys.stderr)
"""


def build(specs: Path, out: Path) -> dict[str, Any]:
    """Run one build; return its wall time and what it compiled."""
    words = [
        "build",
        "--target",
        "cpu",
        "native",
        "--specs-alone",
        "--specs",
        str(specs),
        "--out",
        str(out),
        "--no-cache",
        "--json",
    ]
    start = time.perf_counter()
    done = subprocess.run([str(COMMAND), *words], check=False, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"the build ended with exit code {done.returncode}")
    row = json.loads(done.stdout)[0]
    return {
        "seconds": seconds,
        "compiled": len(row["compiled"]),
        "files": len(row["sources"]),
        "names": row["compiled"],
        "how": row["how"],
    }


def change_default(specs: Path, knob: str, value: str) -> None:
    """Give a knob another default in its YAML file. Raises `SystemExit` when there is no such knob."""
    entry = re.compile(rf"(- name: {re.escape(knob)}\n(?:(?!  - name: ).*\n)*?    default: )(\S+)")
    for file in sorted((specs / "knobs").glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        match = entry.search(text)
        if match and match.group(2) == value:
            raise SystemExit(f"{knob} is {value} already; name another value with --knob")
        if match:
            file.write_text(entry.sub(rf"\g<1>{value}", text, count=1), encoding="utf-8")
            return
    raise SystemExit(f"no knob '{knob}' in {specs / 'knobs'}")


def build_rows(knob: str, value: str) -> dict[str, Any]:
    """Return the three builds."""
    with tempfile.TemporaryDirectory() as scratch:
        specs, out = Path(scratch) / "specs", Path(scratch) / "build"
        shutil.copytree(ROOT / "specs", specs)
        rows = {"cold": build(specs, out), "nothing changed": build(specs, out)}
        change_default(specs, knob, value)
        rows[f"default of {knob} changed"] = build(specs, out)
    return rows


def help_times() -> dict[str, Any]:
    """Return the wall time of `strata-gen --help` in milliseconds, and the heavy packages that it imported."""
    times = []
    for _ in range(HELP_RUNS + 1):
        start = time.perf_counter()
        subprocess.run([str(COMMAND), "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1e3)
    script = LOADED_BY_HELP.format(heavy=HEAVY)
    seen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {"milliseconds": spread(times[1:]), "runs": HELP_RUNS, "heavy_imports": seen.stderr.split()}


def lines_of(result: dict[str, Any]) -> list[str]:
    """Return the result as a table and a line."""
    rows = [("build of cpu native", "seconds", "files compiled")]
    for name, row in result["builds"].items():
        count = f"{row['compiled']} of {row['files']}" if row["how"] == "built" else "none: up to date"
        rows.append((name, f"{row['seconds']:.2f}", count))
    taken, heavy = result["help"]["milliseconds"], result["help"]["heavy_imports"]
    line = f"strata-gen --help: {taken['median']:.0f} ms ({taken['min']:.0f} to {taken['max']:.0f}, {HELP_RUNS} runs)"
    return ["", *table(rows), "", f"{line}, imports of {', '.join(HEAVY)}: {', '.join(heavy) or 'none'}"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--knob", default="pool.spin=100us", metavar="NAME=VALUE", help="the default that is changed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    knob, _, value = options.knob.partition("=")
    if not value:
        parser.error("--knob takes NAME=VALUE")
    result = {"builds": build_rows(knob, value), "help": help_times()}
    report(result, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
