# shellcheck shell=bash disable=SC1091,SC2154
# A chart with a definition, a hook before the installation and a test.
[ -x "$CACHE/helm-$VERSION" ] || go -C "$SOURCE" build -o "$CACHE/helm-$VERSION" ./cmd/helm
helm=$CACHE/helm-$VERSION
export HELM_CACHE_HOME=$PWD/helm HELM_CONFIG_HOME=$PWD/helm HELM_DATA_HOME=$PWD/helm
mkdir -p chart/{crds,templates}
cat >chart/Chart.yaml <<'YAML'
{apiVersion: v2, name: shop, version: 0.1.0, appVersion: "1"}
YAML
echo '{replicas: 2, image: "nginx:1", cpu: 10m}' >chart/values.yaml
cat >chart/crds/shelf.yaml <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {kind: Shelf, plural: shelves}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
YAML
cat >chart/templates/shop.yaml <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, labels: {release: {{ .Release.Name }}}}
spec:
  replicas: {{ .Values.replicas }}
  progressDeadlineSeconds: 5
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: c, image: {{ .Values.image }}, resources: {requests: {cpu: {{ .Values.cpu | quote }}}}}]}
---
{{ if .Capabilities.APIVersions.Has "apps/v1/Deployment" }}
apiVersion: shop.example.com/v1
kind: Shelf
metadata: {name: {{ .Release.Name }}}
spec: {size: {{ .Values.replicas }}}
{{ end }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-before, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: {{ .Release.Name }}-test, annotations: {helm.sh/hook: test, sim.kloop.dev/exit: "0"}}
spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}
YAML
"$helm" install one chart --wait --timeout 60s
kubectl get shelf one -o jsonpath='{.spec.size}' | grep -x 2
kubectl get job one-before -o jsonpath='{.status.succeeded}' | grep -x 1
"$helm" test one --timeout 60s
"$helm" upgrade one chart --set replicas=4 --wait --timeout 60s
[ "$(kubectl get deployment one -o jsonpath='{.status.readyReplicas}')" = 4 ]
kubectl get shelf one -o jsonpath='{.spec.size}' | grep -x 4
if "$helm" upgrade one chart --set cpu=1000 --wait --timeout 8s; then
	echo 'an upgrade that can not become ready is said to have succeeded'
	exit 1
fi
"$helm" rollback one 2 --wait --timeout 60s
[ "$(kubectl get deployment one -o jsonpath='{.spec.template.spec.containers[0].resources.requests.cpu}')" = 10m ]
"$helm" list -o json | grep '"revision":"4"'
"$helm" uninstall one --wait --timeout 60s
[ -z "$(kubectl get deployments,pods -l app=one -o name)" ]
echo '4 revisions, 2 kinds of hooks, 1 failed upgrade taken back'
