# shellcheck shell=bash disable=SC1091,SC2154
# Its views on a terminal of tmux: what they show is read from the screen, what its keys do is asked of the cluster.
[ -x "$CACHE/k9s-$VERSION" ] || go -C "$SOURCE" build -o "$CACHE/k9s-$VERSION" .
. "$CLIENT/wait"
kubectl create deployment web --image=nginx:1 --replicas=3
kubectl rollout status deployment web --timeout=60s
kubectl create configmap words --from-literal=word=kloop
export K9S_CONFIG_DIR=$PWD/config K9S_LOGS_DIR=$PWD/logs
mkdir -p config logs
term() { tmux -S "$PWD/terminal" -f /dev/null "$@"; }
trap 'term capture-pane -p; tail -n 5 logs/*' ERR
trap 'term kill-server' EXIT
term new-session -d -x 180 -y 50 "'$CACHE/k9s-$VERSION' --kubeconfig '$KUBECONFIG' -n default --command pods 2>errors"
views=0

# see WORD…: waits until the screen shows all of these.
see() {
	local i word
	for word; do
		for ((i = 0; i < 60; i++)); do
			if term capture-pane -p | grep -qE "$word"; then continue 2; fi
			sleep 0.5
		done
		echo "not on the screen: $word"
		return 1
	done
	views=$((views + 1))
}
# keys KEY…: not faster than a person, for what a key opens must be there before the next.
keys() {
	local key
	for key; do term send-keys "$key" && sleep 1; done
}
view() { term send-keys ":$1" Enter && sleep 1; }
back() { keys Escape; } # else the next key would come as one with Alt

see 'pods\(default\)\[3\]' 'web-.* 1/1 +Running' 'K8s Rev: v1\.'
for of in 'deployments web.*3/3' 'replicasets web-.*3' 'nodes sim-1.*Ready' 'services kubernetes.*ClusterIP' 'namespaces kube-system.*Active' \
	'clusterroles cluster-admin' 'events Scheduled|Created|ScalingReplicaSet' 'configmaps words' 'crds customresourcedefinitions\(all\)\[0\]'; do
	view "${of%% *}"
	see "${of#* }"
done
view 'xray deployments'
see 'Xray-Deployments' 'web-'
view 'configmaps'
see words
term send-keys /words Enter
see 'configmaps.*\[1\]'
term send-keys y # its YAML
see 'word: kloop' 'kind: ConfigMap'
back
back
view deployments
see 'web.*3/3'
term send-keys d # described
see 'Replicas: +3 desired' 'StrategyType: +RollingUpdate'
back
see 'web.*3/3'
term send-keys Enter # its pods
see 'pods\(default/web\)\[3\]'
kubectl get pods -o name | sort >before
keys C-d
see '<Delete>' 'Cancel +OK'
keys Tab Enter # from Cancel to OK
one_gone() { [ "$(kubectl get pods -o name | sort | comm -13 - before | wc -l)" = 1 ]; }
ready() { [ "$(kubectl get deployment web -o jsonpath='{.status.readyReplicas}')" = 3 ]; }
until_true one_gone
until_true ready
echo "$views screens, 1 pod deleted by its keys"
