"""One builder process: `python builder.py PROJECT OUT` builds the small project and prints what it did as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

from strata_gen.build import BuildRequest, build
from strata_gen.errors import GeneratorError
from strata_gen.failures import BuildFailure
from strata_gen.progress import Reporter
from support.small_project import SmallProject


def main() -> int:
    project, out = SmallProject(Path(sys.argv[1])), Path(sys.argv[2])
    request = BuildRequest(project.tree(), project.layout(out), jobs=1)
    try:
        result = build(request, Reporter(sys.stderr), os.environ)
    except (GeneratorError, BuildFailure) as problem:
        print(problem.render(), file=sys.stderr)
        return 2 if isinstance(problem, GeneratorError) else 1
    print(json.dumps({**dataclasses.asdict(result), "path": str(result.path)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
