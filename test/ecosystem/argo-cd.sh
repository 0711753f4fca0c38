# shellcheck shell=bash disable=SC1091,SC2154
# Its application controller and repository server beside the cluster, with Redis, keep a repository of a local Git server: commits, drift,
# pruning, a bad commit. From v3.3 on its module replaces its engine by a directory that is not published, and can't be built from the proxy.
. "$CLIENT/wait"
command -v redis-server >/dev/null || { echo 'install Redis first: apt-get install redis-server' && exit 1; }
program=$CACHE/argocd-$VERSION
[ -x "$program" ] || CGO_ENABLED=0 go -C "$SOURCE" build -trimpath -ldflags=-w -o "$program" ./cmd
trap 'kill $(jobs -p)' EXIT
. "$CLIENT/git"
site 3
commit 'the first'
kubectl create namespace argocd
kubectl create namespace shop
kubectl apply --server-side -f "$SOURCE/manifests/crds/application-crd.yaml" -f "$SOURCE/manifests/crds/appproject-crd.yaml"
kubectl wait --for=condition=Established crd --all --timeout=60s
kubectl config set-context --current --namespace=argocd
kubectl apply -f - <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: none}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default}
spec: {sourceRepos: ['*'], destinations: [{namespace: '*', server: '*'}], clusterResourceWhitelist: [{group: '*', kind: '*'}]}
YAML
port=$((20000 + RANDOM % 9000))
redis=127.0.0.1:$port
export ARGOCD_FAKE_IN_CLUSTER=true ARGOCD_GPG_ENABLED=false ARGOCD_TLS_DATA_PATH=$PWD ARGOCD_SSH_DATA_PATH=$PWD HOME=$PWD TMPDIR=$PWD
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no >redis.log 2>&1 &
ARGOCD_BINARY_NAME=argocd-repo-server "$program" --address 127.0.0.1 --port $((port + 1)) --metrics-address 127.0.0.1 --metrics-port $((port + 2)) \
	--redis "$redis" --disable-tls --revision-cache-expiration 1s >repository.log 2>&1 &
ARGOCD_BINARY_NAME=argocd-application-controller "$program" --repo-server 127.0.0.1:$((port + 1)) --repo-server-plaintext --redis "$redis" \
	--metrics-port $((port + 3)) --app-resync 3 --app-resync-jitter 0 --self-heal-timeout-seconds 1 >controller.log 2>&1 &
trap 'tail -n 8 repository.log controller.log; kubectl get applications -o yaml' ERR
kubectl apply -f - <<YAML
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: site, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: "$repository", targetRevision: main, path: prod, directory: {exclude: kustomization.yaml}}
  destination: {server: https://kubernetes.default.svc, namespace: shop}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [ServerSideApply=true], retry: {limit: 0}}
YAML
told() { kubectl get application site -o jsonpath="$1"; }
healthy() {
	[ "$(told '{.status.sync.status} {.status.health.status} {.status.sync.revision}')" = "Synced Healthy $(git -C site rev-parse HEAD)" ]
}
field() { [ "$(kubectl -n shop get "$1" -o jsonpath="$2")" = "$3" ]; }
gone() { ! kubectl -n shop get "$1"; }
until_true healthy
field deployment/web '{.status.readyReplicas}' 3
site 5
commit 'more of them'
until_true healthy
until_true field deployment/web '{.status.readyReplicas}' 5
kubectl -n shop scale deployment web --replicas=1 # drift, of a field and of an object
kubectl -n shop delete configmap words
until_true field deployment/web '{.spec.replicas}' 5
until_true field configmap/words '{.data.word}' git
rm site/prod/words.yaml
commit 'without words'
until_true gone configmap/words
echo '{apiVersion: v1, kind: ConfigMap, metadata: {name: "Not A Name"}}' >site/prod/more.yaml
commit 'a bad one'
bad() { told '{.status.operationState.message} {.status.conditions}' | grep -q 'Not A Name'; }
until_true bad
git -C site -c user.name=eco -c user.email=eco@example.com revert --no-edit HEAD
git -C site push -q "$PWD/repositories/site.git" main
until_true healthy
# What rests is not written again.
before=$(kubectl -n shop get deployment web -o jsonpath='{.metadata.generation} {.metadata.managedFields}')
compared=$(told '{.status.reconciledAt}')
again() { [ "$(told '{.status.reconciledAt}')" != "$compared" ]; }
kubectl annotate application site argocd.argoproj.io/refresh=hard
until_true again
[ "$before" = "$(kubectl -n shop get deployment web -o jsonpath='{.metadata.generation} {.metadata.managedFields}')" ]
kubectl delete application site --wait=false
until_true gone deployment/web
echo '4 commits applied, 2 kinds of drift corrected, 1 object pruned, 1 bad commit told and taken back, all gone at the end'
