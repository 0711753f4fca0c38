# shellcheck shell=bash disable=SC1091,SC2154
# Its source-controller and kustomize-controller beside the cluster keep a repository of a local Git server: commits, drift, pruning, a bad commit.
. "$CLIENT/wait"
# build NAME VERSION: the published module names its own API by a directory that it does not contain; the published one is taken.
build() {
	local dir
	dir=$(cd "$CACHE" && go mod download -json "github.com/fluxcd/$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	crds+=(-f "$dir/config/crd/bases")
	if [ -x "$CACHE/$1-$2" ]; then return; fi
	sed '/^replace github.com\/fluxcd\/.* => .\/api$/d' "$dir/go.mod" >"$CACHE/$1.mod"
	cat "$dir/go.sum" >"$CACHE/$1.sum"
	go -C "$dir" build -mod=mod -modfile "$CACHE/$1.mod" -o "$CACHE/$1-$2" .
}
crds=()
kustomize=v1.7.3
build source-controller "$VERSION"
build kustomize-controller $kustomize
trap 'kill $(jobs -p)' EXIT
mkdir storage
. "$CLIENT/git"
site 3
commit 'the first'
kubectl apply --server-side "${crds[@]}"
kubectl wait --for=condition=Established crd --all --timeout=60s
kubectl create namespace flux-system
kubectl create namespace shop
port=$((20000 + RANDOM % 9000))
export RUNTIME_NAMESPACE=flux-system
"$CACHE/source-controller-$VERSION" --storage-path "$PWD/storage" --storage-addr 127.0.0.1:$port --storage-adv-addr 127.0.0.1:$port \
	--metrics-addr 0 --health-addr 127.0.0.1:$((port + 1)) >source.log 2>&1 &
"$CACHE/kustomize-controller-$kustomize" --metrics-addr 0 --health-addr 127.0.0.1:$((port + 2)) --requeue-dependency 2s >kustomize.log 2>&1 &
trap 'tail -n 8 source.log kustomize.log; kubectl get gitrepositories,kustomizations -A' ERR
kubectl apply -f - <<YAML
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: site, namespace: flux-system}
spec: {interval: 2s, url: "$repository", ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: site, namespace: flux-system}
spec: {interval: 5s, retryInterval: 2s, path: ./prod, prune: true, wait: true, timeout: 1m, sourceRef: {kind: GitRepository, name: site}}
YAML
applied() { [[ $(kubectl -n flux-system get kustomization site -o jsonpath='{.status.lastAppliedRevision}') = *$(git -C site rev-parse HEAD) ]]; }
field() { [ "$(kubectl -n shop get "$1" -o jsonpath="$2")" = "$3" ]; }
gone() { ! kubectl -n shop get "$1"; }
until_true applied
kubectl -n flux-system wait --for=condition=Ready kustomization/site --timeout=60s
field deployment/web '{.status.readyReplicas}' 3
# What rests is not written again.
before=$(kubectl -n shop get deployment web -o jsonpath='{.metadata.generation} {.metadata.resourceVersion}')
seen() { kubectl -n flux-system get kustomization site -o jsonpath='{.status.history[0].totalReconciliations}'; }
count=$(seen)
passed() { [ "$(seen)" -ge $((count + 2)) ]; }
until_true passed
[ "$before" = "$(kubectl -n shop get deployment web -o jsonpath='{.metadata.generation} {.metadata.resourceVersion}')" ]
site 5
commit 'more of them'
until_true applied
until_true field deployment/web '{.status.readyReplicas}' 5
kubectl -n shop scale deployment web --replicas=1 # drift, of a field and of an object
kubectl -n shop delete configmap words
until_true field deployment/web '{.spec.replicas}' 5
until_true field configmap/words '{.data.word}' git
rm site/prod/words.yaml
sed -i 's/, words.yaml//' site/prod/kustomization.yaml
commit 'without words'
until_true gone configmap/words
echo '{apiVersion: v1, kind: ConfigMap, metadata: {name: "Not A Name"}}' >site/prod/more.yaml
commit 'a bad one'
bad() { kubectl -n flux-system get kustomization site -o jsonpath='{.status.conditions[?(@.type=="Ready")].message}' | grep -q 'Not A Name'; }
until_true bad
field service/web '{.spec.ports[0].port}' 80
git -C site revert --no-edit HEAD >/dev/null 2>&1 || git -C site -c user.name=eco -c user.email=eco@example.com revert --no-edit HEAD
git -C site push -q "$PWD/repositories/site.git" main
until_true applied
kubectl -n flux-system delete kustomization site
until_true gone deployment/web
echo '4 commits applied, 2 kinds of drift corrected, 1 object pruned, 1 bad commit told and taken back, all gone at the end'
