# shellcheck shell=bash disable=SC2154
# The published module names its own API by a directory that it does not contain, and its suites the definitions of source-controller.
cp -r "$SOURCE" helm-controller
chmod -R u+w helm-controller
sed -i '/^replace github.com\/fluxcd\/.* => .\/api$/d' helm-controller/go.mod
source=$(cd "$CACHE" && go mod download -json github.com/fluxcd/source-controller@v1.7.0 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
mkdir -p helm-controller/build/config/crd
cp -r "$source/config/crd/bases" helm-controller/build/config/crd/bases
go -C helm-controller test -mod=mod -vet=off -count=1 -p 1 -v -timeout 25m ./internal/action/... ./internal/controller/... ./internal/reconcile/... >suite.log 2>&1 ||
	{ grep -E '^ *--- FAIL|^(FAIL|panic:)' suite.log && exit 1; }
echo "$(grep -c '^--- PASS' suite.log) tests"
