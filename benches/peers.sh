#!/bin/sh
# Prints what a proxied HTTP/1.1 request costs in processor time beside nginx and HAProxy: each with two workers before the same
# two upstreams, 95 % to one and 5 % to the other, under the same load, all on one core.
#
#   benches/peers.sh [SERIN]                   default: target/release/serin
#   ROUNDS=9 SECONDS_EACH=2 benches/peers.sh   default: 5 rounds of 1 second
#
# The peers take turns within a round, and ratios are taken within it: what else the machine does falls on all alike. The time
# is that of all the peer's threads and processes, the kernel's work for them included, by the requests that were answered. A
# peer that is not installed is left out. Needs what rig.sh needs, taskset, and nginx or haproxy (Debian: nginx-light, haproxy).
# About 20 s.
set -eu
HERE=$(dirname "$(realpath "$0")")
SERIN=$(realpath "${1:-target/release/serin}")
. "$HERE/rig.sh"
PATH=$PATH:/usr/sbin
ours=$LISTEN
read -r nginx haproxy <<PORTS
$(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))')
PORTS

config on serin
sed -i 's/^workers: 1$/workers: 2/' serin.yaml
"$SERIN" run --config serin.yaml > serin.log 2>&1 &
peers="serin:$!:$ours"
STARTED="$STARTED $!"
wait_for "$ours"

if command -v nginx > /dev/null; then
    mkdir -p nginx
    cat > nginx.conf <<CONF
worker_processes 2; pid $WORK/nginx.pid; error_log stderr; daemon off;
events { worker_connections 4096; }
http {
    access_log off; keepalive_requests 1000000; client_body_temp_path nginx; proxy_temp_path nginx; fastcgi_temp_path nginx;
    uwsgi_temp_path nginx; scgi_temp_path nginx;
    upstream both {
        server 127.0.0.1:$STABLE weight=95; server 127.0.0.1:$CANARY weight=5; keepalive 64; keepalive_requests 1000000;
    }
    server {
        listen 127.0.0.1:$nginx;
        location / {
            proxy_pass http://both; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host \$host;
            proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
        }
    }
}
CONF
    nginx -p "$WORK" -c "$WORK/nginx.conf" 2> nginx.log &
    peers="$peers nginx:$!:$nginx"
    STARTED="$STARTED $!"
    wait_for "$nginx"
fi

if command -v haproxy > /dev/null; then
    cat > haproxy.cfg <<CONF
global
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option forwardfor
    http-reuse always
frontend in
    bind 127.0.0.1:$haproxy
    default_backend both
backend both
    server stable 127.0.0.1:$STABLE weight 95
    server canary 127.0.0.1:$CANARY weight 5
CONF
    haproxy -f haproxy.cfg 2> haproxy.log &
    peers="$peers haproxy:$!:$haproxy"
    STARTED="$STARTED $!"
    wait_for "$haproxy"
fi

for started in $STARTED; do
    taskset -a -p -c 0 "$started" > /dev/null
    for child in $(pgrep -P "$started" || true); do taskset -a -p -c 0 "$child" > /dev/null; done
done

python3 - "${ROUNDS:-5}" "${SECONDS_EACH:-1}" $peers <<'PY'
import glob, re, statistics, subprocess, sys

rounds, seconds, *peers = sys.argv[1:]
peers = [(name, int(process), port) for name, process, port in (peer.split(":") for peer in peers)]

def family(process):
    with open(f"/proc/{process}/task/{process}/children") as children:
        return [process] + [one for child in children.read().split() for one in family(int(child))]

def spent(process):
    """Nanoseconds of processor time of all its threads and children."""
    stats = (path for one in family(process) for path in glob.glob(f"/proc/{one}/task/*/schedstat"))
    return sum(int(open(path).read().split()[0]) for path in stats)

def round_of(process, port):
    """Microseconds a request, and requests a second."""
    before = spent(process)
    command = ["taskset", "-c", "0", "h2load", "--h1", "-t", "1", "-c", "32", "-D", seconds, f"http://127.0.0.1:{port}/some/path"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took = spent(process) - before
    done, failed = re.search(r"(\d+) succeeded, (\d+) failed", said).groups()
    if int(failed) or not int(done):
        sys.exit(f"requests failed:\n{said}")
    return took / 1e3 / int(done), int(done) / float(seconds)

for _, process, port in peers:
    round_of(process, port)  # Connections, pages and caches are warm then.
seen = {name: [] for name, *_ in peers}
for turn in range(int(rounds)):
    order = peers[turn % len(peers):] + peers[:turn % len(peers)]
    for name, process, port in order:
        seen[name].append(round_of(process, port))
for name, results in seen.items():
    cost, rate = (statistics.median(part) for part in zip(*results))
    line = f"{name:8} {cost:6.2f} us of processor time a request, {rate:,.0f} requests a second"
    if name != "serin":
        ratio = statistics.median(ours[0] / theirs[0] for ours, theirs in zip(seen["serin"], results))
        line += f"; serin takes {ratio:.2f} of its time"
    print(line)
PY
