# shellcheck shell=bash disable=SC2154
# Its controller beside the cluster. Specs that want pods of an image that starts slowly or fails do not hold on simulated nodes.
cp -r "$SOURCE" rollouts
chmod -R u+w rollouts
[ -x "$CACHE/controller-$VERSION" ] || CGO_ENABLED=0 go -C rollouts build -ldflags=-w -o "$CACHE/controller-$VERSION" ./cmd/rollouts-controller
[ -x rollouts/dist/kubectl-argo-rollouts ] || CGO_ENABLED=0 go -C rollouts build -ldflags=-w -o dist/kubectl-argo-rollouts ./cmd/kubectl-argo-rollouts
[ -x "$CACHE/e2e-$VERSION" ] || go -C rollouts test -vet=off -tags e2e -ldflags=-w -c -o "$CACHE/e2e-$VERSION" ./test/e2e
kubectl apply --server-side -k rollouts/manifests/crds
kubectl create namespace argo-rollouts
kubectl config set-context --current --namespace=argo-rollouts
trap 'kill $(jobs -p)' EXIT
"$CACHE/controller-$VERSION" --instance-id argo-rollouts-e2e --loglevel info >controller.log 2>&1 &
cd rollouts/test/e2e || exit
E2E_WAIT_TIMEOUT=40 "$CACHE/e2e-$VERSION" -test.v -test.short -test.timeout 28m \
	-test.run '^Test(Functional|Canary|BlueGreen|Experiment)Suite$' >suite.log 2>&1 || true
passed=$(grep -c '^    --- PASS' suite.log) failed=$(grep -c '^    --- FAIL' suite.log || true)
grep '^    --- FAIL' suite.log || true
echo "$passed of $((passed + failed)) specs"
[ "$passed" -gt 30 ]
