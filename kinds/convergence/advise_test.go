package convergence

import (
	"slices"
	"testing"
)

func TestAdvise(t *testing.T) {
	for _, c := range []struct{ name, advice, want string }{
		{"words", "look at its log", "look at its log"},
		{"a command", "kubectl get pods -n a", "kubectl get pods -n a"},
		{"behind words", "correct it: kubectl edit x.example.com a -n b", "correct it: kubectl edit x.example.com a -n b"},
		{"JSON", `kubectl patch x a -p '{"spec":{"a;b":"$(c)"}}'`, `kubectl patch x a -p '{"spec":{"a;b":"$(c)"}}'`},
		{"what may be", "what it has: kubectl auth can-i --list --as=system:serviceaccount:a:b -n a",
			"what it has: kubectl auth can-i --list --as=system:serviceaccount:a:b -n a"},
		{"two commands", "kubectl delete pvc d -n a --wait=false && kubectl delete pod p -n a",
			"kubectl delete pvc d -n a --wait=false && kubectl delete pod p -n a"},
		{"a copy", "copy it: kubectl get secret s -n a -o yaml | sed 's/namespace: a/namespace: b/' | kubectl apply -f -",
			"copy it: kubectl get secret s -n a -o yaml | sed 's/namespace: a/namespace: b/' | kubectl apply -f -"},
		{"a copy in its place",
			`kubectl patch job j --dry-run=client -o yaml --type=json -p '[{"op":"add"}]' | sed '/c-uid/d' | kubectl replace --force -f -`,
			`kubectl patch job j --dry-run=client -o yaml --type=json -p '[{"op":"add"}]' | sed '/c-uid/d' | kubectl replace --force -f -`},
		{"a secret anew",
			"kubectl create secret docker-registry s -n a --docker-server=r --dry-run=client -o yaml | kubectl replace --force -f -",
			"kubectl create secret docker-registry s -n a --docker-server=r --dry-run=client -o yaml | kubectl replace --force -f -"},
		{"another object anew", "make it: kubectl create namespace b --dry-run=client -o yaml | kubectl replace --force -f -", "make it"},
		{"a copy for a shell",
			`make it: kubectl patch job j -n a --dry-run=client -o yaml --type=json -p '[]' | sed 'w /etc/passwd' | kubectl replace --force -f -`,
			"make it"},
		{"what makes an object", `make it: echo '{"kind":"X"}' | kubectl apply -f -`, `make it: echo '{"kind":"X"}' | kubectl apply -f -`},

		{"what a shell's echo reads", `make it: echo '{"kind":"X\\n"}' | kubectl apply -f -`, "make it"},
		{"an object for another program", `make it: echo '{"kind":"X"}' | sh`, "make it"},
		{"another command", "look: kubectl get x a && kubectl delete namespace b", "look"},
		{"another command between", "kubectl delete pvc d -n a --wait=false && kubectl delete pod p -n a && kubectl delete node n", ""},
		{"in its words", "correct a: kubectl delete namespace b, or name another: kubectl get x", "correct a"},
		{"behind a line", "look: kubectl get x a\nreboot", "look"},
		{"in another shell", "look: kubectl get x $(reboot)", "look"},
		{"in a pipe", "look: kubectl get x a | sh", "look"},
		{"of an open quote", `correct it: kubectl patch x a -p '{"a`, "correct it"},
		{"of a quote that ends early", `correct it: kubectl patch x a -p '{"a' -n kube-system '":1}'`, "correct it"},
		{"of a quote within a word", `look: kubectl get x -n a' --server=https://example.com '`, "look"},
		{"of a script", "copy it: kubectl get secret s -n a -o yaml | sed 's/namespace: a/b/e;s/c/d/' | kubectl apply -f -", "copy it"},
		{"to another server", "look: kubectl get x a --server=https://example.com", "look"},
		{"as another", "look: kubectl get x a --as root", "look"},
		{"of all", "look: kubectl delete pod a --all -n b", "look"},
		{"a file of others", "look: kubectl delete pod a -f https://example.com/x.yaml", "look"},
		{"a terminal's", "look: kubectl get x \x1b[2J", "look"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g Gap
			g.Advise([]string{c.advice})
			var want, commands []string
			if c.want != "" {
				want = []string{c.want}
			}
			if c.want == c.advice && c.name != "words" {
				commands = []string{c.advice[command.FindAllStringSubmatchIndex(c.advice, 1)[0][2]:]}
			}
			if !slices.Equal(g.Advice, want) || !slices.Equal(g.Commands, commands) {
				t.Errorf("%q, commands %q", g.Advice, g.Commands)
			}
		})
	}
}
