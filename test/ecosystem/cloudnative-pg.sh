# shellcheck shell=bash disable=SC1091,SC2154
# Its operator and its webhooks, which the server reaches by their Service: defaults, what is refused, and all that the first instance is made of. There
# is no PostgreSQL on a simulated node: examples/postgres has one.
[ -x "$CACHE/operator-$VERSION" ] || go -C "$SOURCE" build -o "$CACHE/operator-$VERSION" ./cmd/manager
. "$CLIENT/wait"
kubectl apply --server-side -f "$SOURCE/releases/cnpg-${VERSION#v}.yaml"
kubectl wait --for=condition=Established crd --all --timeout=60s
in_system() { kubectl -n cnpg-system "$@"; }
in_system scale deployment cnpg-controller-manager --replicas=0
name=cnpg-webhook-service.cnpg-system.svc port=$((20000 + RANDOM % 10000))
mkdir -p certs operator
ln -s "$CACHE/operator-$VERSION" operator/manager_amd64 # the architectures of its image
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$name" -addext "subjectAltName=DNS:$name" \
	-keyout certs/apiserver.key -out certs/apiserver.crt
ca=$(base64 -w 0 certs/apiserver.crt)
for kind in mutating validating; do
	kubectl get ${kind}webhookconfiguration "cnpg-$kind-webhook-configuration" -o json |
		sed "s,\"clientConfig\": {,&\"caBundle\": \"$ca\"\,," | kubectl replace -f -
done
in_system patch service cnpg-webhook-service --type merge -p "{\"spec\":{\"selector\":null,\"ports\":[{\"port\":443,\"targetPort\":$port}]}}"
in_system get endpointslices -o name | xargs -r kubectl -n cnpg-system delete
in_system create -f - <<YAML
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: here, labels: {kubernetes.io/service-name: cnpg-webhook-service}}
addressType: IPv4
ports: [{name: "", port: $port}]
endpoints: [{addresses: ["$(hostname -I | cut -d' ' -f1)"]}]
YAML
OPERATOR_NAMESPACE=cnpg-system OPERATOR_IMAGE_NAME=cloudnative-pg WEBHOOK_CERT_DIR=$PWD/certs MONITORING_QUERIES_CONFIGMAP=cnpg-default-monitoring \
	"$CACHE/operator-$VERSION" controller --metrics-bind-address=0 --webhook-port=$port --config-map-name=cnpg-controller-manager-config \
	>client.log 2>&1 &
trap 'tail -n 8 client.log; kubectl get clusters,pods,pvc,jobs' ERR
trap 'kill %1' EXIT
cluster() { printf -- '---\n{apiVersion: postgresql.cnpg.io/v1, kind: Cluster, metadata: {name: %s}, spec: %s}' "$1" "$2"; }
made() { kubectl apply -f - <<<"$(cluster db '{instances: 2, storage: {size: 1Gi}}')"; }
until_true made
[ "$(kubectl get cluster db -o jsonpath='{.spec.postgresql.parameters.wal_level} {.spec.bootstrap.initdb.database}')" = 'logical app' ] # the webhook's defaults
refused() { ! kubectl apply -f - >refused 2>&1 <<<"$(cluster bad '{instances: 1, storage: {size: 1Gi}, bootstrap: {initdb: {database: app}, recovery: {source: none}}}')"; }
refused
grep -q 'Only one bootstrap method' refused
for object in service/db-rw service/db-ro service/db-r secret/db-ca secret/db-server secret/db-replication secret/db-app \
	serviceaccount/db role/db rolebinding/db pdb/db-primary pvc/db-1 job/db-1-initdb; do
	until_true kubectl get "$object"
done
# The first instance: the Job ends, as its node simulates it, and the instance follows.
placed() { kubectl get pods -l job-name=db-1-initdb -o jsonpath='{.items[*].spec.nodeName}' | grep -q sim-; }
until_true placed
kubectl annotate pod -l job-name=db-1-initdb sim.kloop.dev/exit=0
until_true kubectl get pod db-1
[ "$(kubectl get cluster db -o jsonpath='{.status.instances} {.status.targetPrimary}')" = '1 db-1' ]
kubectl get cluster db -o jsonpath='{.metadata.ownerReferences}{.status.phase}'
# A hand's change is taken back, and all goes with the cluster.
kubectl delete service db-ro
until_true kubectl get service db-ro
kubectl delete cluster db
kubectl wait --for=delete pod/db-1 pvc/db-1 service/db-rw --timeout=60s
echo '1 cluster of 13 kinds of objects up to its first instance, 2 webhooks by their Service, 1 refused, 1 drift corrected'
