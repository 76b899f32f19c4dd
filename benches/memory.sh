#!/bin/sh
# Prints what connections take of Serin's resident memory, over both paths: those that are idle after a request each, and
# 256 that are kept busy.
#
#   benches/memory.sh [SERIN]                  default: target/release/serin
#   LIMITS='6 20' benches/memory.sh            exit status 1 when an idle connection takes more KiB, or Serin with 256 busy
#                                              ones more MiB
#   IDLE=5000 benches/memory.sh                idle connections; default: 20,000, or what the limit of open files allows
#
# What the kernel keeps for a socket is not in it. Needs what rig.sh needs. About 30 s.
set -eu
HERE=$(dirname "$(realpath "$0")")
SERIN=$(realpath "${1:-target/release/serin}")
ulimit -n "$(ulimit -Hn)"
IDLE=${IDLE:-20000}
files=$(ulimit -n)
[ "$files" = unlimited ] || [ "$IDLE" -lt $((files - 500)) ] || IDLE=$((files - 500))
. "$HERE/rig.sh"

begin() { # PATH
    "$SERIN" run --config "$1.yaml" > log 2>&1 &
    proxy=$!
    STARTED="$STARTED $proxy"
    wait_for "$LISTEN"
}

end() {
    kill -TERM "$proxy"
    wait "$proxy" || true
}

resident() { # in KiB
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$proxy/status"
}

idle() { # prints KiB for each
    python3 - "$proxy" "$LISTEN" "$IDLE" <<'PY'
import socket, sys

proxy, port, count = (int(x) for x in sys.argv[1:])
def resident():
    with open(f"/proc/{proxy}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
def connect(count):
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
    return clients

first = connect(200)
before = resident()
clients = connect(count)
print(f"{(resident() - before) / count:.2f}")
PY
}

busy() { # prints KiB in all
    h2load --h1 -t 1 -c 256 -n 50000 "http://127.0.0.1:$LISTEN/" > load &
    loading=$!
    most=0
    while kill -0 "$loading" 2>/dev/null; do
        now=$(resident)
        [ "$now" -le "$most" ] || most=$now
        sleep 0.1
    done
    grep -q '50000 succeeded, 0 failed' load || { cat load >&2; exit 2; }
    echo "$most"
}

for path in off on; do
    config "$path" "$path"
    begin "$path"
    each=$(idle)
    end
    begin "$path"
    most=$(busy)
    end
    case $path in off) name='ordinary path' ;; on) name='fast path' ;; esac
    echo "$name: $each KiB for each of $IDLE idle connections, $((most / 1024)) MiB in all with 256 busy ones"
    echo "$each $most" >> figures
done

python3 - figures "${LIMITS:-}" <<'PY'
import sys

limits = [float(x) for x in sys.argv[2].split()]
for line in open(sys.argv[1]):
    idle, busy = (float(x) for x in line.split())
    if limits and (idle > limits[0] or busy / 1024 > limits[1]):
        sys.exit("more than the limits: " + sys.argv[2])
PY
