#!/bin/sh
# Renews `release.profdata`, by which release.sh optimises: builds Serin so that it counts how often each branch is taken,
# and puts its own load on it: both paths of HTTP/1.1, HTTP/2, TLS with handshakes, small and large bodies.
#
#   benches/profile.sh
#
# To be done after changes of what each request meets, and with another release of Rust, whose LLVM reads only its own
# profiles; .ci/run bounds the counts of the release build, so a profile that has grown old shows. Needs what rig.sh needs, openssl,
# and llvm-profdata of the same LLVM (`rustup component add llvm-tools`). About 10 min on two cores.
set -eu
HERE=$(dirname "$(realpath "$0")")
cd "$HERE/.."
host=$(rustc -vV | sed -n 's/^host: //p')
merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$merge" ] || { echo "there is no $merge: rustup component add llvm-tools" >&2; exit 2; }
RUSTFLAGS="-C target-feature=+crt-static -C profile-generate=$PWD/target/profile/raw" CARGO_PROFILE_RELEASE_STRIP=none \
    cargo build --release --locked --bin serin --target "$host" --target-dir target/profile
SERIN=$PWD/target/profile/$host/release/serin

# What the upstreams of the rig do is not what is trained for.
export LLVM_PROFILE_FILE=/dev/null
. "$HERE/rig.sh"
read -r BIG TLS <<PORTS
$(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))')
PORTS
cat > big.py <<'PY'
"""Answers each request with 64 KiB."""
import socketserver, sys

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 65536\r\n\r\n" + bytes(65536)

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline():
            while self.rfile.readline().strip():
                pass
            self.wfile.write(ANSWER)

class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 512

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
PY
python3 big.py "$BIG" & STARTED="$STARTED $!"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 1 \
    -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2> openssl.log
head -c 1000 /dev/zero > small.body
head -c 100000 /dev/zero > large.body

train() { # REQUESTS [OPTIONS OF H2LOAD…] URL
    count=$1
    shift
    h2load -n "$count" -t 1 -H 'accept: text/html,application/xhtml+xml' -H 'accept-encoding: gzip, deflate, br' \
        -H 'accept-language: en-GB,en;q=0.8' -H 'cookie: session=8a7d6f5e4c3b2a19; theme=dark' -H 'x-request-id: 7b1c9f' \
        "$@" > load
    grep -q " $count succeeded, 0 failed" load || { cat load >&2; exit 2; }
}

for path in on off; do
    config "$path" "$path"
    sed -i "s|^listeners:.*|listeners:\n  - { name: plain, listen: \"127.0.0.1:$LISTEN\" }\n  - { name: tls, listen: \"127.0.0.1:$TLS\", tls: { certificates: [{ cert: cert.pem, key: key.pem }] } }|" "$path.yaml"
    cat >> "$path.yaml" <<YAML
  big: { versions: { v1: "http://127.0.0.1:$BIG" }, stable: v1 }
routes:
  - { match: [{ path: { prefix: /big } }], service: big }
  - { service: bench }
YAML
    LLVM_PROFILE_FILE="raw/%p-%m.profraw" "$SERIN" run --config "$path.yaml" > "log-$path" 2>&1 &
    proxy=$!
    STARTED="$STARTED $proxy"
    wait_for "$LISTEN"
    plain="http://127.0.0.1:$LISTEN" secure="https://127.0.0.1:$TLS"
    train 40000 --h1 -c 16 "$plain/some/path?q=1"
    train 5000 --h1 -c 4 -d small.body "$plain/some/path"
    train 1000 --h1 -c 4 -d large.body "$plain/some/path"
    train 1000 --h1 -c 4 "$plain/big"
    train 10000 -c 8 -m 10 "$plain/some/path?q=1"
    train 1000 -c 4 -m 4 "$plain/big"
    train 10000 --h1 -c 16 "$secure/some/path?q=1"
    train 5000 -c 8 -m 10 "$secure/some/path?q=1"
    train 400 --h1 -c 400 "$secure/some/path?q=1"
    # The counts are written by an end in order.
    kill -TERM "$proxy"
    wait "$proxy"
done
"$merge" merge --sparse --output="$HERE/release.profdata" raw
ls -l "$HERE/release.profdata"
