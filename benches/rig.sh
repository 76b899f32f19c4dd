# Sourced by the scripts beside it: Serin on one worker before two upstreams of its own, 95 % to stable and 5 % to the
# canary, and a load of GETs with 7 header fields over 4 kept-alive connections. What it starts ends with the script.
# Needs h2load, curl and python3 (Debian: nghttp2-client, curl, python3).
WORK=$(mktemp -d)
STARTED=
trap 'kill $STARTED 2>/dev/null || true; wait; rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
cd "$WORK"

wait_for() { # PORT
    for _ in $(seq 300); do
        curl -sf -o /dev/null "http://127.0.0.1:$1/" && return
        sleep 0.1
    done
    echo "nothing answers on port $1" >&2
    exit 2
}

# Writes NAME.yaml, with the fast path on or off.
config() { # on|off NAME
    cat > "$2.yaml" <<YAML
listeners: [{ name: bench, listen: "127.0.0.1:$LISTEN", limits: { connections: 30000 } }]
workers: 1
fastPath: $1
admin: { listen: "127.0.0.1:$ADMIN" }
state: { dir: ./state-$2 }
services:
  bench:
    versions: { v1: "http://127.0.0.1:$STABLE", v2: "http://127.0.0.1:$CANARY" }
    stable: v1
    canary: v2
    strategy: { canary: { steps: [{ setWeight: 5 }, { pause: {} }] } }
YAML
}

load() { # REQUESTS
    h2load --h1 -n "$1" -c 4 -t 1 -H 'accept: text/html,application/xhtml+xml' -H 'accept-encoding: gzip, deflate, br' \
        -H 'accept-language: en-GB,en;q=0.8' -H 'cookie: session=8a7d6f5e4c3b2a19; theme=dark' -H 'x-request-id: 7b1c9f' \
        "http://127.0.0.1:$LISTEN/some/path?q=1" > load
    grep -q "$1 succeeded, 0 failed" load || { cat load >&2; exit 2; }
}

# Starts COMMAND… run --config NAME.yaml, loads it, and ends it.
measured() { # NAME REQUESTS COMMAND…
    name=$1 requests=$2
    shift 2
    mkdir "$name-$requests"
    "$@" run --config "$name.yaml" > "$name-$requests/log" 2>&1 &
    proxy=$!
    STARTED="$STARTED $proxy"
    wait_for "$LISTEN"
    load "$requests"
    # A tracer is ended by its end.
    kill -TERM $(pgrep -P "$proxy" || echo "$proxy")
    wait "$proxy" || true
}

read -r LISTEN ADMIN STABLE CANARY <<PORTS
$(python3 - <<'PY'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(s.getsockname()[1] for s in sockets))
PY
)
PORTS
"$SERIN" toy --name v1 --listen "127.0.0.1:$STABLE" > toy1 2>&1 & STARTED="$STARTED $!"
"$SERIN" toy --name v2 --listen "127.0.0.1:$CANARY" > toy2 2>&1 & STARTED="$STARTED $!"
wait_for "$STABLE"
wait_for "$CANARY"
