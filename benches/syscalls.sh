#!/bin/sh
# Prints the system calls of the worker for one proxied HTTP/1.1 request, over both paths.
#
#   benches/syscalls.sh [SERIN]                default: target/release/serin
#   LIMIT=6 benches/syscalls.sh                exit status 1 when either path makes more
#
# Two runs under strace differ only in the number of requests. With 4 connections some requests share a poll. Needs strace
# and what rig.sh needs. About 15 s.
set -eu
HERE=$(dirname "$(realpath "$0")")
SERIN=$(realpath "${1:-target/release/serin}")
FEW=200 MANY=1200
. "$HERE/rig.sh"

for path in off on; do
    config "$path" "$path"
    for requests in $FEW $MANY; do
        measured "$path" "$requests" strace -f -q --seccomp-bpf -o "$path-$requests/trace" "$SERIN"
    done
done

python3 - "$FEW" "$MANY" "${LIMIT:-0}" <<'PY'
import collections, re, sys

def worker(path):
    """Calls by name, of the thread that receives most."""
    threads = collections.defaultdict(collections.Counter)
    for line in open(path):
        if found := re.match(r"(\d+) +(\w+)\(", line):
            threads[found[1]][found[2]] += 1
    return max(threads.values(), key=lambda calls: calls["recvfrom"])

few, many, limit = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
worst = 0
for path, name in (("off", "ordinary path"), ("on", "fast path")):
    less, more = worker(f"{path}-{few}/trace"), worker(f"{path}-{many}/trace")
    each = {call: (more[call] - less[call]) / (many - few) for call in more}
    shown = ", ".join(f"{call} {n:.2f}" for call, n in sorted(each.items(), key=lambda item: -item[1]) if n >= 0.01)
    worst = max(worst, sum(each.values()))
    print(f"{name}: {sum(each.values()):.2f} system calls a request: {shown}")
sys.exit(f"more than {limit}" if limit and worst > limit else 0)
PY
