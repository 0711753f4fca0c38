# shellcheck shell=bash disable=SC1091,SC2154
# A node of kwok's beside kloop's simulated ones, without the annotation by which kloop would run it itself.
[ -x "$CACHE/kwok-$VERSION" ] || go -C "$SOURCE" build -o "$CACHE/kwok-$VERSION" ./cmd/kwok
stages=()
for stage in "$SOURCE"/kustomize/stage/{node,pod}/fast/*.yaml; do stages+=(--config "$stage"); done
"$CACHE/kwok-$VERSION" --kubeconfig "$KUBECONFIG" --manage-all-nodes=false --manage-nodes-with-label-selector=type=kwok \
	"${stages[@]}" --cidr 10.99.0.0/16 --node-ip 127.0.0.1 >client.log 2>&1 &
trap 'tail -n 5 client.log' ERR
trap 'kill %1' EXIT
kubectl apply -f - <<'YAML'
apiVersion: v1
kind: Node
metadata:
  name: kwok-0
  labels: {type: kwok, kubernetes.io/hostname: kwok-0}
spec: {taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: fake}
spec:
  replicas: 20
  selector: {matchLabels: {app: fake}}
  template:
    metadata: {labels: {app: fake}}
    spec:
      nodeSelector: {type: kwok}
      tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
      containers: [{name: c, image: fake}]
YAML
kubectl wait --for=condition=Ready node/kwok-0 --timeout=60s
kubectl rollout status deployment fake --timeout=120s
[ "$(kubectl get pods -l app=fake -o jsonpath='{.items[*].spec.nodeName}' | tr ' ' '\n' | sort -u)" = kwok-0 ]
kubectl delete deployment fake
kubectl wait --for=delete pod -l app=fake --timeout=60s
echo '1 node, 20 pods ready and gone again'
