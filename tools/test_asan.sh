#!/usr/bin/env bash
# Build the extensions with AddressSanitizer and UBSan in a copy of the tree, and run their tests there. The normal
# build is not changed. Usage: tools/test_asan.sh PYTHON [PYTEST ARGUMENTS]
set -euo pipefail

python=$(realpath --no-symlinks "$1")
shift
cd "$(dirname "$0")/.."
if ! command -v gcc >/dev/null; then echo 'the sanitizers are skipped, since gcc is not installed on this machine' exit
  0
fi

tree=build/asan
mkdir -p "$tree"
# The built files are kept, so only changed extensions are recompiled.
for folder in codegen conformance docs examples reference_broker schemas sdk src tests tools; do
  find "$tree/$folder" -type f ! -name '*.so' ! -name '*.c' -delete 2>/dev/null || true
  tar --create --exclude='*.so' --exclude='*.c' --exclude=__pycache__ "$folder" | tar --extract --directory "$tree"
done
cp setup.py pyproject.toml README.md "$tree"
cd "$tree"

echo "building the extensions with sanitizers in $tree"
CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined' \
LDFLAGS='-fsanitize=address,undefined' \
  "$python" setup.py --quiet build_ext --inplace >build.log 2>&1 || { cat build.log; exit 1; }
for source in $(find sdk -name '*.pyx'); do
  ls "${source%.pyx}".*.so >/dev/null 2>&1 || { cat build.log; echo "$source was not built"; exit 1; }
done

# Python itself is built without sanitizers, so LD_PRELOAD loads their runtime. Objects come from the C allocator, which
# the sanitizer watches. Leaks are not reported, because the interpreter itself leaks.
export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export PYTHONMALLOC=malloc KAFKAWIRE_ENGINE=native PYTHONPATH="$PWD/src"
folders=()
for folder in tests/sdk/protocol tests/sdk/records tests/conformance; do
  [ -d "$folder" ] && folders+=("$folder")
done
exec "$python" -m pytest -q -p no:cacheprovider --timeout 600 "$@" "${folders[@]}"
