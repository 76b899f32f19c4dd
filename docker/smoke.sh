#!/usr/bin/env bash
# Plays the trial of compose.yaml on the engine of this machine: v2 is reverted, v3 promoted, the proxy is restarted and v1 scaled up
# and down in the middle, and no request fails but those that v2 failed. Takes a static binary, so that no base image is pulled:
#   SERIN_BINARY=target/x86_64-unknown-linux-gnu/release/serin docker/smoke.sh
set -euo pipefail
cd "$(dirname "$0")"

binary=${SERIN_BINARY:?name a static build of serin in SERIN_BINARY}
binary=$(realpath "$binary")
bytes_max=${SERIN_BYTES_MAX:-$((15 * 1024 * 1024))}
work=$(mktemp -d)
name=serin-smoke-$$
export SERIN_IMAGE=$name
if docker compose version >/dev/null 2>&1; then compose=(docker compose); else compose=(docker-compose); fi

trial() { "${compose[@]}" -p "$name" -f "$work/docker/compose.yaml" "$@"; }
proxy() { trial exec -T proxy serin "$@"; }

finish() {
    local code=$?
    if [[ $code -ne 0 ]]; then
        echo "--- the proxy said" >&2
        trial logs --tail 40 proxy >&2 || true
    fi
    trial down --volumes --timeout 5 >"$work/down" 2>&1 || cat "$work/down" >&2
    docker image rm --force "$name" >/dev/null 2>&1 || true
    rm -rf "$work"
    exit "$code"
}
trap finish EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# until_true WHAT SECONDS COMMAND…: waits until the command succeeds.
until_true() {
    local what=$1 end=$((SECONDS + $2))
    shift 2
    until "$@"; do
        [[ $SECONDS -lt $end ]] || fail "$what did not come about"
        sleep 0.5
    done
    echo "  $what"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# A value of the status document, by a Python expression over `d`.
status() { proxy status web --output json | python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }
is() { [[ $(status "$1" 2>/dev/null) == "$2" ]]; }
wish() { sed -i "s/^    canary: [^ ]*/    canary: $1/" "$work/docker/trial/serin.yaml"; }

echo "--- the image"
! ldd "$binary" 2>&1 | grep -q '=>' || fail "$binary is not static"
size=$(stat --format %s "$binary")
[[ $size -le $bytes_max ]] || fail "the binary has $size bytes; $bytes_max are promised"
mkdir -p "$work/context/image/bin" "$work/context/image/state"
cp "$binary" "$work/context/image/bin/serin"
# The last stage of the Dockerfile itself, fed from here.
sed -n '/^FROM scratch/,$p' Dockerfile | sed 's/--from=build \(.*\) \/image\//\1 image\//' >"$work/context/Dockerfile"
DOCKER_BUILDKIT=0 docker build --quiet --tag "$name" "$work/context" >/dev/null
[[ $(docker image inspect --format '{{.Config.User}}' "$name") == 65532:65532 ]] || fail "the image runs as root"
docker run --rm --read-only "$name" --version
echo "  $((size / 1024)) KiB, non-root, in an empty image"

echo "--- up"
mkdir "$work/docker"
cp -r compose.yaml trial prometheus sidecar sidecar.yaml "$work/docker/"
# The image is there: nothing is to be built, nor found one folder up.
sed -i '/^    build: /d' "$work"/docker/*.yaml
"${compose[@]}" -f "$work/docker/sidecar.yaml" config --quiet
# The user of the image reads it.
chmod -R a+rX "$work"
SERIN_PORT=$(free_port)
SERIN_ADMIN_PORT=$(free_port)
export SERIN_PORT SERIN_ADMIN_PORT
trial up -d >"$work/up" 2>&1 || { cat "$work/up" >&2; fail "it does not come up"; }
until_true "v1 serves" 60 is 'd["phase"]' Healthy
curl --fail --silent --show-error --output /dev/null "http://127.0.0.1:$SERIN_PORT/" || fail "the published port does not answer"

echo "--- v2, which fails every second request"
wish v2
until_true "v2 is reverted" 60 is 'd["phase"]' Degraded
proxy why | sed 's/^/  /'
# By way of a file: tap ends after three, and what writes into its pipe would fail then.
trial logs --no-color proxy >"$work/log" 2>/dev/null
"$binary" tap --role canary --failed --limit 3 <"$work/log" | sed 's/^/  /' >"$work/tap"
cat "$work/tap"
[[ $(grep -c ' v2 (canary)' "$work/tap") -eq 3 ]] || fail "tap does not show what v2 failed"

echo "--- v3, the fix; the proxy is restarted and v1 scaled up and down meanwhile"
wish v3
until_true "v3 gets requests" 30 is 'any(v["name"] == "v3" and v["weightPpm"] > 0 for v in d["versions"])' True
trial restart --timeout 40 proxy >/dev/null 2>&1
answers() { proxy healthcheck >/dev/null 2>&1; }
until_true "the proxy is back" 60 answers
is 'd["phase"]' Progressing || fail "the rollout did not go on after the restart"
trial up -d --no-recreate --scale v1=2 >/dev/null 2>&1
[[ $(trial ps -q v1 | wc -l) -eq 2 ]] || fail "v1 was not scaled"
trial up -d --no-recreate --scale v1=1 >/dev/null 2>&1
until_true "v3 is promoted" 120 is 'd["phase"] + " " + next(v["name"] for v in d["versions"] if v["role"] == "stable")' 'Healthy v3'
proxy history | sed 's/^/  /'
proxy drift >"$work/drift" && fail "the file still names v1 as stable, and drift does not say so"
grep -q 'write `stable: v3`' "$work/drift" || fail "drift does not name what to write: $(cat "$work/drift")"
proxy report --markdown | grep -q 'v3 of web: promoted' || fail "the report does not tell of the promotion"
curl --fail --silent --show-error --output /dev/null --header "Authorization: Bearer look" \
    "http://127.0.0.1:$SERIN_ADMIN_PORT/api/v1/services" || fail "the published admin port does not answer"

echo "--- what the load saw"
trial stop --timeout 15 load >/dev/null 2>&1
trial logs --no-color load 2>/dev/null | sed 's/^[^|]*| //' | python3 -c '
import json, sys
text = sys.stdin.read()
load = json.loads(text[text.index("{"):text.rindex("}") + 1])
bad = load["versions"]["v2"]
print("  %d answered, v2 %d of which it failed %d" % (load["answered"], bad["answered"], bad["failed"]))
lost = load["broken"] + load["timedOut"]
failed = sum(n for status, n in load["statuses"].items() if int(status) >= 500)
if lost or failed != bad["failed"]:
    print(json.dumps(load), file=sys.stderr)
    sys.exit("requests failed that v2 had no part in")
' || fail "a request failed"

echo "--- down"
trial down --volumes --timeout 10 >/dev/null 2>&1
[[ -z $(docker ps --all --quiet --filter "label=com.docker.compose.project=$name") ]] || fail "containers are left"
echo "passed"
