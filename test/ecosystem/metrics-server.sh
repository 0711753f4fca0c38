# shellcheck shell=bash disable=SC1091,SC2154
# Its process runs here beside the cluster: it reads the agents, and asks the API server who asks and whether they may.
[ -x "$CACHE/metrics-server-$VERSION" ] || go -C "$SOURCE" build -o "$CACHE/metrics-server-$VERSION" ./cmd/metrics-server
kubectl run web --image=nginx:1
kubectl wait --for=condition=Ready pod/web --timeout=60s
port=$((20000 + RANDOM % 10000))
"$CACHE/metrics-server-$VERSION" --kubeconfig "$KUBECONFIG" --authentication-kubeconfig "$KUBECONFIG" --authorization-kubeconfig "$KUBECONFIG" \
	--cert-dir certs --secure-port $port --bind-address 127.0.0.1 --metric-resolution 15s --kubelet-insecure-tls --kubelet-use-node-status-port \
	--kubelet-preferred-address-types InternalIP >client.log 2>&1 &
trap 'tail -n 5 client.log' ERR
trap 'kill %1' EXIT
url=https://127.0.0.1:$port/apis/metrics.k8s.io/v1beta1
kubectl create serviceaccount reader
kubectl create clusterrole reads-metrics --verb=get,list --resource=nodes.metrics.k8s.io,pods.metrics.k8s.io
kubectl create clusterrolebinding reads-metrics --clusterrole=reads-metrics --serviceaccount=default:reader
token=$(kubectl create token reader)
other=$(kubectl create token default)
ask() { curl -sk --max-time 5 -o answer -w '%{http_code}' -H "Authorization: Bearer $1" "$url/$2"; }
for ((i = 0; i < 60; i++)); do
	if [ "$(ask "$token" nodes)" = 200 ] && grep -q '"usage"' answer && [ "$(ask "$token" namespaces/default/pods/web)" = 200 ]; then break; fi
	sleep 1
done
[ "$(ask "$token" nodes)" = 200 ]
grep -q '"cpu": *"[1-9]' answer
[ "$(ask "$token" namespaces/default/pods/web)" = 200 ]
grep -q '"memory": *"[1-9]' answer
[ "$(ask "$other" nodes)" = 403 ]
[ "$(ask nonsense nodes)" = 401 ]
echo '1 node and 1 pod measured, 2 strangers refused'
