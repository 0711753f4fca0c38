//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An own file of settings for the kubectl in the pod, with the pod's credentials.
const ownConfig = `
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://kubernetes.default.svc:443", certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}
contexts: [{name: x, context: {cluster: c, user: u, namespace: default}}]
current-context: x
users: [{name: u, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]
`

const onOwnNode = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE], resources: [configmaps]}]
  matchConditions: [{name: ours, expression: "request.userInfo.username == 'system:serviceaccount:%[1]s:default'"}]
  variables:
  - {name: node, expression: "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')"}
  - {name: name, expression: "request.operation == 'DELETE' ? oldObject.metadata.name : object.metadata.name"}
  validations:
  - {expression: "variables.node != ''", message: runs on no node}
  - {expression: "variables.node == variables.name", messageExpression: "'on ' + variables.node + ' not ' + variables.name"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`

// TestInCluster has kubectl run in a pod: it finds the API and its namespace by itself, unless it is told otherwise. A policy goes by the
// node that the pod's token names.
func TestInCluster(t *testing.T) {
	ns := space(t)
	startClient(t, ns)
	kubectl(t, "cp", filepath.Join(it.bin, "kubectl"), ns+"/client:/tmp/kubectl")
	if out, err := feed(ownConfig, "exec", "-i", "-n", ns, "client", "--", "sh", "-c", "cat > /tmp/own"); err != nil {
		t.Fatal(out, err)
	}
	back := filepath.Join(t.TempDir(), "own")
	kubectl(t, "cp", ns+"/client:/tmp/own", back)
	if text, err := os.ReadFile(back); err != nil || string(text) != ownConfig {
		t.Errorf("a file copied out of the pod: %q, %v", text, err)
	}
	kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole=view", "--serviceaccount="+ns+":default")
	t.Cleanup(func() {
		kubectl(t, "delete", "clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding", ns)
	})
	kubectl(t, "create", "rolebinding", "-n", ns, "edit", "--clusterrole=edit", "--serviceaccount="+ns+":default")
	in := func(cmd string) string {
		out, _ := feed("", "exec", "-n", ns, "client", "--", "sh", "-c", "/tmp/kubectl "+cmd+" 2>&1")
		return out
	}
	eventually(t, "kubectl in the pod may list pods", func() (bool, string) {
		out := in("get pods")
		return strings.Contains(out, "client   1/1     Running"), out
	})
	const itself, space = "Using in-cluster configuration", "Using in-cluster namespace"
	api := "https://" + host(clusterIP("default", "kubernetes")) + ":443/api/v1/namespaces/"
	for cmd, want := range map[string][]string{
		"get pods -v=6":                        {itself, space, api + ns + "/pods"},
		"get pods -v=6 --namespace=invalid":    {itself, "!" + space, "No resources found", api + "invalid/pods"},
		"create configmap -v=6 -n other c":     {itself, "!" + space, api + "other/configmaps", "cannot create"},
		"create configmap -v=6 'no such name'": {itself, space, api + ns + "/configmaps", "Invalid value"},
		"get pods -v=6 --token=invalid":        {itself, space, "Unauthorized"},
		"get pods -v=6 --server=127.0.0.1:1":   {"!" + itself, "http://127.0.0.1:1/api", "was refused"},
		"get pods -v=6 --kubeconfig=/tmp/own":  {"!" + itself, "https://kubernetes.default.svc:443/api/v1/namespaces/default/pods"},
		"auth whoami -o jsonpath={.status.userInfo}": {"system:serviceaccount:" + ns + ":default",
			`node-name":["` + getPod(t, ns, "client").Spec.NodeName},
	} {
		out := in(cmd)
		for _, w := range want {
			if text, not := strings.CutPrefix(w, "!"); strings.Contains(out, text) == not {
				t.Errorf("kubectl %s: want %s:\n%s", cmd, w, out)
			}
		}
	}
	byNode(t, ns, in)
}

// byNode lets the pod's account write only what has its node's name.
func byNode(t *testing.T, ns string, in func(string) string) {
	t.Helper()
	apply(t, ns, fmt.Sprintf(onOwnNode, ns))
	node := getPod(t, ns, "client").Spec.NodeName
	kubectl(t, "create", "configmap", "-n", ns, "elsewhere")
	denied := "on " + node + " not elsewhere"
	eventually(t, "the policy is enforced", func() (bool, string) {
		out := in("label configmap elsewhere seen=yes --overwrite")
		return strings.Contains(out, denied), out
	})
	stranger := "--token=" + kubectl(t, "create", "token", "-n", ns, "default") + " "
	for _, tt := range []struct{ cmd, want string }{
		{"create configmap " + node, "created"},
		{"create configmap another", "on " + node + " not another"},
		{"label configmap " + node + " a=b", "labeled"},
		{"delete configmap " + node, "deleted"},
		{"delete configmap elsewhere", denied},
		{"create configmap " + node, "created"},
		{"delete --raw /api/v1/namespaces/" + ns + "/configmaps", "on " + node + " not "},
		{stranger + "create configmap " + node + "-2", "runs on no node"},
		{stranger + "delete configmap elsewhere", "runs on no node"},
	} {
		if out := in(tt.cmd); !strings.Contains(out, tt.want) {
			t.Errorf("kubectl %s: %s, want %s", tt.cmd, out, tt.want)
		}
	}
}

// TestTokenOwner: a projected token is for whom the pod runs as, and for its group.
func TestTokenOwner(t *testing.T) {
	ns := space(t)
	const volume = `
restartPolicy: Never
volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}]}}]
securityContext: {%s}`
	tests := []struct{ name, as, want string }{
		{"user", "runAsUser: 1000", "600 1000 0"},
		{"group", "fsGroup: 10000", "640 0 10000"},
		{"both", "runAsUser: 1000, fsGroup: 10000", "640 1000 10000"},
		{"neither", "", "644 0 0"},
	}
	manifest := ""
	for _, tt := range tests {
		manifest += onePod(tt.name, "stat -Lc '%a %u %g' /v/token; cut -d. -f3 /v/token | wc -l; sleep 0", fmt.Sprintf(volume, tt.as),
			"volumeMounts: [{name: v, mountPath: /v, readOnly: true}]")
	}
	apply(t, ns, manifest)
	for _, tt := range tests {
		if out := logged(t, ns, tt.name, "\n"); out != tt.want+"\n1" {
			t.Errorf("%s: %q, want %s", tt.name, out, tt.want)
		}
	}
}
