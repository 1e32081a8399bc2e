# Sourced by the scripts beside it: finds a Python, makes .venv, installs the package into it when that is due.
# Needs bash and Python 3.11 or later with venv and pip; $PYTHON chooses the Python.

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$here/.venv
me=scripts/$(basename -- "$0")
unset PYTHONHOME PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USER=0 PIP_NO_INPUT=1

fail() {
  printf '%s: %s\n' "$me" "$1" >&2
  exit 1
}

usable() {  # a Python that is new enough and can make environments with pip
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

identity() {  # version and home: what tells one Python from another
  "$1" -c 'import sys; print(sys.version_info[:3], sys.base_prefix)' 2>/dev/null
}

find_python() {
  local candidates=(python3 python3.14 python3.13 python3.12 python3.11 python) candidate found=""
  [ -n "${PYTHON:-}" ] && candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if usable "$candidate"; then
      # Inside an activated .venv, python3 is the one that a rebuild would delete.
      "$candidate" -c 'import sys; print(sys._base_executable or sys.executable)'
      return
    fi
    if command -v "$candidate" >/dev/null 2>&1; then
      found="$found $candidate=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo unusable)"
    fi
  done
  fail "needs Python 3.11 or later with venv and pip (found:${found:- none}); install one (Debian: python3 and python3-venv) or name it: PYTHON=/path/to/python3.12 $me"
}

healthy() {  # the environment at $1 runs, was made at this place, has pip, and is of the Python asked for
  usable "$1/bin/python" && "$1/bin/python" -m pip --version >/dev/null 2>&1 || return 1
  # In a moved checkout the first lines of its commands still name the old place.
  grep -qF -- "$1" "$1/bin/activate" 2>/dev/null || return 1
  [ -z "${PYTHON:-}" ] || [ "$(identity "$PYTHON")" = "$(identity "$1/bin/python")" ]
}

stamp() {  # changes with what pyproject.toml declares
  printf '%s %s\n' "$1" "$(cksum <"$here/pyproject.toml")"
}

stamped() {
  [ -f "$2" ] && [ "$(cat "$2")" = "$(stamp "$1")" ]
}

make_venv() {
  healthy "$1" && return
  local python
  python=$(find_python) || exit 1
  printf '%s: making %s\n' "$me" "${1#"$here"/}" >&2
  "$python" -m venv --clear "$1" || fail "could not make ${1#"$here"/}; remove that folder and try again"
}

install() {  # install VENV WHAT...: quietly, with a word on what to do when it can't
  local target=$1
  shift
  "$target/bin/python" -m pip install --quiet "$@" ||
    fail "pip could not install ${*: -1}; check the network or the package index, then run this again"
}

setup() {  # setup run | setup dev: .venv with the package in place, and for dev the tools as well
  make_venv "$venv"
  stamped dev "$venv/.deermem-dev" && return
  if [ "$1" = run ] && stamped run "$venv/.deermem-run"; then return; fi
  local what=$here
  [ "$1" = dev ] && what="$here[dev]"
  printf '%s: installing into .venv\n' "$me" >&2
  install "$venv" --editable "$what"
  stamp "$1" >"$venv/.deermem-$1"
}
