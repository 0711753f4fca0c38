# shellcheck shell=bash disable=SC1091,SC2154
# Its rules in CEL, on the definitions of both channels.
tell() {
	grep -A3 -E '^ *--- FAIL|^FAIL' "$1"
	return 1
}
run() { # CHANNEL FLAG…
	for crd in "$SOURCE"/config/crd/"$1"/gateway.networking*; do kubectl apply --server-side --force-conflicts -f "$crd" >/dev/null; done
	kubectl wait --for=condition=Established crd -l '!none' --timeout=60s >/dev/null
	(cd "$SOURCE" && CRD_CHANNEL=$1 go test -vet=off -count=1 -v "${@:2}" ./pkg/test/cel) >"$1.log" 2>&1 || tell "$1.log"
	passed=$((passed + $(grep -cE '^ *--- PASS' "$1.log")))
}
passed=0
run standard -tags=standard
# Left out: what wants the type of a value named before a rule's message, as servers did up to 1.34.
run experimental -tags=experimental -skip TestHTTPRouteTimeouts/invalid_timeout_request_200ms_less_than_backendRequest_1s
echo "$passed tests on two channels"
