#!/bin/sh
# Prints how many instructions one worker spends in user space on one proxied HTTP/1.1 request.
#
#   benches/instructions.sh [SERIN]            default: target/release/serin
#   LIMIT=31000 benches/instructions.sh        exit status 1 when it is more
#
# Two runs under callgrind differ only in the number of requests, so start-up cancels out; the figure repeats to 1 or
# 2 %. Counted is the busiest thread, which is the worker (threads are numbered as they happen to start). A GET with
# 7 header fields, 4 kept-alive connections, 95 % to stable and 5 % to the canary. What the kernel does is not in it.
# Needs valgrind, h2load, curl and python3 (Debian: valgrind, nghttp2-client, curl, python3). About 20 s.
set -eu
SERIN=$(realpath "${1:-target/release/serin}")
FEW=500 MANY=2500
WORK=$(mktemp -d)
STARTED=
trap 'kill $STARTED 2>/dev/null || true; wait; rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
cd "$WORK"

free_ports() {
    python3 - <<'PY'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(s.getsockname()[1] for s in sockets))
PY
}

wait_for() { # PORT
    for _ in $(seq 300); do
        curl -sf -o /dev/null "http://127.0.0.1:$1/" && return
        sleep 0.1
    done
    echo "nothing answers on port $1" >&2
    exit 2
}

# Leaves the worker's instructions in the file $1.
count() { # NAME REQUESTS
    mkdir "$1"
    valgrind -q --tool=callgrind --separate-threads=yes --callgrind-out-file="$1/out" \
        "$SERIN" run --config serin.yaml > "$1/log" 2>&1 &
    proxy=$!
    STARTED="$STARTED $proxy"
    wait_for "$LISTEN"
    h2load --h1 -n "$2" -c 4 -t 1 -H 'accept: text/html,application/xhtml+xml' -H 'accept-encoding: gzip, deflate, br' \
        -H 'accept-language: en-GB,en;q=0.8' -H 'cookie: session=8a7d6f5e4c3b2a19; theme=dark' -H 'x-request-id: 7b1c9f' \
        "http://127.0.0.1:$LISTEN/some/path?q=1" > "$1/load"
    grep -q "$2 succeeded, 0 failed" "$1/load" || { cat "$1/load" >&2; exit 2; }
    kill -TERM "$proxy"
    wait "$proxy" || true
}

read -r LISTEN ADMIN STABLE CANARY <<PORTS
$(free_ports)
PORTS
cat > serin.yaml <<YAML
listeners: [{ name: bench, listen: "127.0.0.1:$LISTEN" }]
workers: 1
admin: { listen: "127.0.0.1:$ADMIN" }
state: { dir: ./state }
services:
  bench:
    versions: { v1: "http://127.0.0.1:$STABLE", v2: "http://127.0.0.1:$CANARY" }
    stable: v1
    canary: v2
    strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }] } }
YAML
"$SERIN" toy --name v1 --listen "127.0.0.1:$STABLE" > toy1 2>&1 & STARTED="$STARTED $!"
"$SERIN" toy --name v2 --listen "127.0.0.1:$CANARY" > toy2 2>&1 & STARTED="$STARTED $!"
wait_for "$STABLE"
wait_for "$CANARY"
count few "$FEW"
count many "$MANY"

python3 - "$((MANY - FEW))" "${LIMIT:-0}" <<'PY'
import glob, re, sys

def threads(run):
    totals = {}
    for path in glob.glob(f"{run}/out*"):
        text = open(path).read()
        thread = re.search(r"^thread: (\d+)", text, re.M)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if thread and total:
            totals[thread[1]] = totals.get(thread[1], 0) + int(total[1])
    return totals

few, many = threads("few"), threads("many")
requests, limit = int(sys.argv[1]), int(sys.argv[2])
each = (max(many.values()) - max(few.values())) / requests
print(f"instructions per request: {each:,.0f}")
sys.exit(1 if limit and each > limit else 0)
PY
