# shellcheck shell=bash disable=SC1091,SC2154
# Its controllers, webhook and injector of CAs beside the cluster: issuers, certificates, renewal, an Ingress's certificate, what the webhook refuses.
program=$CACHE/cert-manager-$VERSION
if [ ! -x "$program" ]; then
	mkdir -p "$CACHE/build"
	cp "$CLIENT/cert-manager.go.txt" "$CACHE/build/main.go"
	sed 's,^module .*,&/kloop,' "$SOURCE/go.mod" >"$CACHE/build/go.mod"
	cp "$SOURCE/go.sum" "$CACHE/build/go.sum"
	chmod +w "$CACHE"/build/go.*
	(cd "$CACHE/build" && go mod edit -require "github.com/cert-manager/cert-manager@$VERSION" && go build -mod=mod -o "$program" .)
fi
. "$CLIENT/wait"
kubectl create namespace cert-manager
kubectl apply --server-side -f "$SOURCE/deploy/crds" # its README is none, and is passed over
kubectl wait --for=condition=Established crd --all --timeout=60s
port=$((20000 + RANDOM % 10000))
kubectl apply -f - <<YAML
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: cert-manager-webhook
  annotations: {cert-manager.io/inject-ca-from-secret: cert-manager/cert-manager-webhook-ca}
webhooks:
  - name: webhook.cert-manager.io
    rules:
      - {apiGroups: [cert-manager.io, acme.cert-manager.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ["*/*"]}
    admissionReviewVersions: [v1]
    matchPolicy: Equivalent
    failurePolicy: Fail
    sideEffects: None
    clientConfig: {url: "https://localhost:$port/validate"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: cert-manager-webhook
  annotations: {cert-manager.io/inject-ca-from-secret: cert-manager/cert-manager-webhook-ca}
webhooks:
  - name: webhook.cert-manager.io
    rules: [{apiGroups: [cert-manager.io], apiVersions: [v1], operations: [CREATE], resources: [certificaterequests]}]
    admissionReviewVersions: [v1]
    matchPolicy: Equivalent
    failurePolicy: Fail
    sideEffects: None
    clientConfig: {url: "https://localhost:$port/mutate"}
YAML
"$program" --kubeconfig "$KUBECONFIG" --webhook-port $port >client.log 2>&1 &
trap 'tail -n 20 client.log' ERR
trap 'kill %1' EXIT
yaml() {
	cat <<'YAML'
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: roots}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca, namespace: default}
spec:
  isCA: true
  commonName: kloop-ca
  secretName: ca
  privateKey: {algorithm: ECDSA}
  issuerRef: {name: roots, kind: ClusterIssuer, group: cert-manager.io}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ours, namespace: default}
spec: {ca: {secretName: ca}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web, namespace: default}
spec:
  dnsNames: [web.example.com]
  secretName: web
  privateKey: {rotationPolicy: Always}
  issuerRef: {name: ours}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: default, annotations: {cert-manager.io/issuer: ours}}
spec:
  tls: [{hosts: [shop.example.com], secretName: shop}]
  rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}}]
YAML
}
applied() { yaml | kubectl apply -f - 2>&1; }
until_true applied
for name in ca web shop; do
	until_true kubectl get certificate $name
	kubectl wait --for=condition=Ready certificate/$name --timeout=60s
	kubectl get secret $name -o jsonpath='{.data.tls\.crt}' | base64 -d >$name.crt
done
openssl verify -CAfile ca.crt web.crt shop.crt
openssl x509 -in shop.crt -noout -checkhost shop.example.com | grep -q 'does match'
for kind in validating mutating; do
	kubectl get ${kind}webhookconfiguration cert-manager-webhook -o jsonpath='{.webhooks[0].clientConfig.caBundle}' | grep -q .
done
refused() { ! kubectl apply -f - >refused 2>&1 <<<"$1" && grep -q 'webhook.cert-manager.io.* denied' refused; }
refused $'---\n{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: none}, spec: {secretName: none, issuerRef: {name: ours}}}'
# A Secret that is gone, and another name, are a new certificate.
kubectl delete secret web
until_true kubectl get secret web
kubectl wait --for=condition=Ready certificate/web --timeout=60s
first=$(kubectl get certificate web -o jsonpath='{.status.revision}')
kubectl patch certificate web --type merge -p '{"spec":{"dnsNames":["web.example.com","www.example.com"]}}'
again() { [ "$(kubectl get certificate web -o jsonpath='{.status.revision}')" -gt "$first" ]; }
until_true again
kubectl wait --for=condition=Ready certificate/web --timeout=60s
kubectl get secret web -o jsonpath='{.data.tls\.crt}' | base64 -d | openssl x509 -noout -checkhost www.example.com | grep -q 'does match'
# What an Ingress wanted goes with it.
kubectl delete ingress shop
kubectl wait --for=delete certificate/shop --timeout=60s
echo '3 certificates of 2 issuers, 2 webhooks with the CA injected, 1 refused, 2 issued anew'
