#!/bin/sh
# Prints what one worker spends in user space on one proxied HTTP/1.1 request, over both paths: instructions, and calls
# of the allocator.
#
#   benches/instructions.sh [SERIN]            default: target/release/serin
#   LIMITS='31000 12000 0' benches/instructions.sh    exit status 1 when the ordinary or the fast path takes more
#                                              instructions, or the fast path more allocations
#
# Two runs under callgrind differ only in the number of requests, so start-up cancels out; the figure repeats to 1 or
# 2 %. Counted is the busiest thread, which is the worker (threads are numbered as they happen to start). What the kernel
# does is not in it. Allocations are counted where the binary has its symbols (CARGO_PROFILE_RELEASE_STRIP=none), which change
# no instruction. Needs valgrind and what rig.sh needs. About 40 s.
set -eu
HERE=$(dirname "$(realpath "$0")")
SERIN=$(realpath "${1:-target/release/serin}")
FEW=500 MANY=2500
. "$HERE/rig.sh"

for path in off on; do
    config "$path" "$path"
    for requests in $FEW $MANY; do
        measured "$path" "$requests" \
            valgrind -q --tool=callgrind --separate-threads=yes --callgrind-out-file="$path-$requests/out" "$SERIN"
    done
done

python3 - "$FEW" "$MANY" "${LIMITS:-}" <<'PY'
import glob, re, sys

ALLOCATOR = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"}
# As the C library names them within itself; in a static binary valgrind may show these.
ALLOCATOR |= {"__libc_" + name for name in ALLOCATOR} | {"__" + name for name in ALLOCATOR}

def thread(path):
    """Instructions of a thread, and calls of the allocator from outside it."""
    total, calls, names, callee, caller = 0, 0, {}, None, None
    def name(text):
        number, _, text = text.partition(" ")
        return names.setdefault(number, text.split("@")[0]) if text else names.get(number, "")
    for line in open(path):
        if line.startswith("fn="):
            caller = name(line[3:].strip())
        elif line.startswith("cfn="):
            callee = name(line[4:].strip())
        elif line.startswith("calls=") and callee in ALLOCATOR and caller not in ALLOCATOR:
            calls += int(line[6:].split()[0])
        elif found := re.match(r"(?:totals|summary): (\d+)", line):
            total = max(total, int(found[1]))
    return total, calls

few, many, limits = int(sys.argv[1]), int(sys.argv[2]), [float(x) for x in sys.argv[3].split()]
each = {}
for path in ("off", "on"):
    less, more = (max(map(thread, glob.glob(f"{path}-{n}/out-*"))) for n in (few, many))
    each[path] = [(b - a) / (many - few) for a, b in zip(less, more)]
    name = {"off": "ordinary path", "on": "fast path"}[path]
    # A binary without symbols does not say which of its functions is the allocator.
    is_counted = more[1] > 0
    allocations = f"{each[path][1]:.2f} allocations" if is_counted else "allocations not counted"
    print(f"{name}: {each[path][0]:,.0f} instructions and {allocations} a request")
    if limits and not is_counted:
        sys.exit("the allocations cannot be counted: build with CARGO_PROFILE_RELEASE_STRIP=none")
if limits and (each["off"][0] > limits[0] or each["on"][0] > limits[1] or round(each["on"][1], 1) > limits[2]):
    sys.exit("more than the limits: " + sys.argv[3])
PY
