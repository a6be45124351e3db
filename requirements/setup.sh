#!/usr/bin/env bash
# Makes or mends .venv and installs the pinned requirements and the project itself:  bash requirements/setup.sh run|dev
# Does nothing when the requirements, the project file, the interpreter and the folder are those of the last time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

level=${1:?usage: setup.sh run|dev}
python=${PYTHON:-python3}
venv=.venv
venv_python=$venv/bin/python

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

check_python() {
  command -v "$python" >/dev/null || fail "no '$python' on PATH; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"
  local version
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "'$python' does not run"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "'$python' is Python $version, but 3.11 or newer is needed; name one: make PYTHON=python3.12"
  "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "'$python' cannot make virtual environments; install its venv module (Debian, Ubuntu: apt-get install python3-venv)"
  "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    fail "the C headers of '$python' are missing; install them (Debian, Ubuntu: apt-get install python3-dev)"
}

check_compiler() {
  local candidate
  # CXX may hold a launcher or flags besides the compiler ("ccache g++"): its first word must exist.
  for candidate in ${CXX:-c++ g++ clang++}; do
    if command -v "$candidate" >/dev/null; then return; fi
    if [ -n "${CXX:-}" ]; then break; fi
  done
  fail "no C++20 compiler: looked for ${CXX:-c++, g++, clang++}; install one (Debian, Ubuntu: apt-get install g++) or set CXX"
}

# What an installation was made of. The absolute folder is part of it: scripts and the editable install hold that path.
fingerprint() {
  cat requirements/run.txt requirements/"$1".txt pyproject.toml requirements/setup.sh | cksum
  pwd -P
}

is_current() {
  local stamp=$venv/.installed-$1
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint "$1")" ] && "$venv_python" -c 'pass' 2>/dev/null
}

# Half-made environments have no working pip; moved ones name another folder in their activation script.
is_whole() {
  "$venv_python" -m pip --version >/dev/null 2>&1 && grep -qF "$(pwd -P)/$venv" "$venv/bin/activate"
}

make_venv() {
  if is_whole; then return; fi
  if [ -e "$venv" ]; then
    echo "remaking $venv: it is incomplete or belongs to another folder" >&2
    rm -rf "$venv"
  fi
  echo "making $venv" >&2
  "$python" -m venv "$venv"
}

install() {
  rm -f "$venv"/.installed-*
  echo "installing requirements/$level.txt (the first time downloads torch and takes minutes)" >&2
  "$venv_python" -m pip --disable-pip-version-check --no-input install -r requirements/"$level".txt
  "$venv_python" -m pip --disable-pip-version-check --no-input install -q --no-deps --no-build-isolation -e .
  fingerprint "$level" >"$venv/.installed-$level"
}

# The development requirements include the run-time ones.
if is_current dev || is_current "$level"; then exit 0; fi
check_python
check_compiler
make_venv
install
