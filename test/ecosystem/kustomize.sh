# shellcheck shell=bash disable=SC1091,SC2154
# A base, an overlay with a generator and a patch; applied, changed, and what left the overlay pruned.
[ -x "$CACHE/kustomize-$VERSION" ] || go -C "$SOURCE" build -o "$CACHE/kustomize-$VERSION" .
kustomize=$CACHE/kustomize-$VERSION
mkdir -p base over
cat >base/web.yaml <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
YAML
echo 'resources: [web.yaml]' >base/kustomization.yaml
over() { # COLOUR
	cat >over/kustomization.yaml <<YAML
resources: [../base]
namePrefix: big-
labels: [{pairs: {part-of: eco}}]
configMapGenerator: [{name: settings, literals: [colour=$1]}]
images: [{name: nginx, newTag: "2"}]
patches:
- target: {kind: Deployment}
  patch: |
    - {op: add, path: /spec/replicas, value: 3}
YAML
}
apply() {
	"$kustomize" build over | kubectl apply --prune -l part-of=eco --prune-allowlist=core/v1/ConfigMap --prune-allowlist=core/v1/Service -f -
	kubectl rollout status deployment big-web --timeout=60s
}
over red
apply
first=$(kubectl get configmap -l part-of=eco -o name)
over blue
apply
[ "$(kubectl get configmap -l part-of=eco -o name | wc -l)" = 1 ]
[ "$(kubectl get configmap -l part-of=eco -o name)" != "$first" ]
[ "$(kubectl get deployment big-web -o jsonpath='{.status.readyReplicas} {.spec.template.spec.containers[0].image}')" = '3 nginx:2' ]
kubectl get "$(kubectl get configmap -l part-of=eco -o name)" -o jsonpath='{.data.colour}' | grep -x blue
echo '2 builds applied, 1 object pruned'
