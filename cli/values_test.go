package cli

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// free are the flags whose values may be any text, and why.
var free = map[string]string{
	"data-dir": "a directory that may be made", "snapshot-dir": "a directory that is made",
	"manifests-dir": "a directory that is made",
	"git-dir":       "a directory that is made", "root-dir": "a directory that is made",
	"manifests": "a directory that may come", "root": "a directory that is made",
	"audit-log-path": "a file that is made", "save": "a file that is made", "out": "a file that is made",
	"bin-dir": "a directory that is made",
	"token":   "a server says whether it is good", "context": "the kubeconfig says", "as": "any user",
	"as-group": "any group", "by": "any user, program or loop",
	"user": "any user", "group": "any group", "hosts": "any names", "api-audiences": "any names",
	"service-account-issuer": "any name",
	"oidc-client-id":         "any name", "oidc-username-claim": "any name", "oidc-username-prefix": "any text",
	"oidc-groups-claim":  "any name",
	"oidc-groups-prefix": "any text", "entrypoint": "any words",
	"env":                               "any words",
	"image-credential-provider-bin-dir": "checked with the configuration", "cmd": "any words",
	"workdir": "any directory",
}

// badValues are values that flags refuse, by their names; others by their kinds.
var badValues = map[string][]string{
	"kubeconfig": {"no/such/file"}, "config": {"no/such/file", "."}, "f": {"no/such/file"},
	"filename": {"no/such/file"}, "from": {"no/such/file"},
	"server": {"10.0.0.1:6443", "ftp://h"}, "address": {"10.0.0.300", "host"}, "pod-cidr": {"10.0.0.0", "x"},
	"name": {"A_b"}, "node-name": {"A_b"},
	"namespace": {"A_b"}, "n": {"a.b"}, "ca-hash": {"sha256:12"}, "ports": {"80", "x:y", "80:0"},
	"port": {"-1", "65536", "x"}, "o": {"xml"}, "output": {"xml"},
	"container-runtime-endpoint": {"tcp://h:1", "run/c.sock"},
	"log":                        {"verbose"}, "logging-format": {"xml"}, "store": {"paper"}, "node": {"A_b"}, "listen": {"6443", "h:99999"},
	"pprof":            {"6060"},
	"emulated-version": {"1.12", "x"}, "network": {"tunnel"}, "proxy-mode": {"iptables"},
	"load-balancer": {"cloud"}, "since": {"tomorrow", "-1h"},
	"until": {"tomorrow", "2999-01-01T00:00:00Z"}, "at": {"tomorrow"}, "to": {"web"}, "ipvs-scheduler": {"best"},
	"join": {"10.0.0.1"}, "peer-listen": {"2380"}, "peer-url": {"x"}, "member-name": {"x"},
	"etcd-servers": {"x"}, "oidc-issuer-url": {"http://x"}, "trace-export": {"collector:4318"},
	"cluster-domain":           {"A_b"},
	"node-cidr-mask-size-ipv6": {"129", "-1"}, "image-gc-high-threshold": {"70", "101"},
	"image-gc-low-threshold": {"86", "-1"}, "pod-max-pids": {"-2", "x"},
	"shutdown-delay-duration": {"1h", "-1s"}, "node-monitor-grace": {"1ms"}, "tls-cert-file": {"no/such/file", "values_test.go"},
	"p": {"all"}, "print": {"all"}, "arch": {"z80"}, "ref": {"A:::"}, "env": {"X"}, "etcd-cafile": {"no/such/file"},
	"tls-private-key-file": {"no/such/file", "values_test.go"},
}

// allowed is how a message tells what is allowed.
var allowed = regexp.MustCompile(`use |want|none of|neither|is not|there is no|has no|need|exclude|can't be|is no |directory`)

// Each flag that takes not any text refuses what it can't be with exit code 2, before anything is done, in one line that
// names the flag and what it may be.
func TestBadValueOfEveryFlag(t *testing.T) {
	t.Setenv("KLOOP_CLUSTERS", filepath.Join(t.TempDir(), "clusters"))
	left := maps.Clone(free)
	ended, end := context.WithCancel(t.Context())
	end() // what takes a value all the same does not begin
	for _, f := range forms(t) {
		if f.name == "kubectl" || f.fs == nil {
			continue
		}
		f.fs.VisitAll(func(fl *flag.Flag) {
			line := f.line
			if section(fl) != "" || f.name == "up" || f.name == "server" {
				line = map[bool]string{true: "config show", false: f.line}[f.name == "up" || f.name == "server"]
			}
			for _, v := range valuesFor(fl) {
				if fl.Name == "kubeconfig" && (f.name == "create" || isSetting(fl)) {
					continue // it is written
				}
				delete(left, fl.Name)
				args := append(append([]string{"kloop"}, strings.Fields(line)...), dashes(fl.Name)+"="+v)
				var o, e bytes.Buffer
				code := Run(ended, strings.NewReader(""), &o, &e, args)
				text := e.String()
				one := strings.Count(text, "\n") == 1 && strings.Contains(text, dashes(fl.Name)) && allowed.MatchString(text)
				if code != 2 || o.Len() > 0 || !one {
					t.Errorf("%s: code %d, %q, %q", strings.Join(args, " "), code, &o, text)
				}
			}
			if _, any := free[fl.Name]; any {
				delete(left, fl.Name)
			} else if len(valuesFor(fl)) == 0 {
				t.Errorf("kloop %s: %s: say which value it refuses, or why it takes any", f.line, dashes(fl.Name))
			}
		})
	}
	for name := range left {
		t.Errorf("no command has a flag %s", dashes(name))
	}
}

// valuesFor are values that a flag refuses.
func valuesFor(f *flag.Flag) []string {
	if list := badValues[f.Name]; list != nil {
		return list
	}
	if _, any := free[f.Name]; any {
		return nil
	}
	if g, ok := f.Value.(flag.Getter); ok {
		switch g.Get().(type) {
		case time.Duration:
			return []string{"soon", "-1s", "0s"}
		case int:
			return []string{"many", "-7"}
		case bool:
			return []string{"maybe"}
		case string:
			return nil
		}
	}
	if slices.Contains([]string{"-file", "config"}, f.Name) {
		return []string{"no/such/file"}
	}
	if section(f) == "" && !isSetting(f) {
		return nil
	}
	return []string{"@@", "-7"}
}

// What can't be meant is refused wherever it was set, and whatever finds it: who set it is named.
func TestWrongSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("KLOOP_CLUSTERS", filepath.Join(dir, "clusters"))
	head := "apiVersion: kloop.dev/v1alpha1\nkind: Config\n"
	junk := write("junk", "a: [b\n")
	up := "up --store memory --node none --listen 127.0.0.1:0 --log error --data-dir " + filepath.Join(dir, "data")
	for _, tt := range []struct{ line, env, wants string }{
		{"up --store paper", "", `flag --store: store "paper": use etcd or memory`},
		{"server --store paper", "", `flag --store: store "paper": use etcd or memory`},
		{up, "KLOOP_PROXY_MODE=iptables", "environment KLOOP_PROXY_MODE: proxy mode"},
		{up, "KLOOP_SIM_NODES=many", "environment KLOOP_SIM_NODES"},
		{up + " --config " + write("bad.yaml", head+"network:\n  mode: tunnel\n"), "", "bad.yaml:4: network mode"},
		{up + " --config " + write("odd.yaml", head+"netwrok:\n  mode: auto\n"), "",
			"odd.yaml:3: there is no setting netwrok; did you mean network?"},
		{up + " --config " + junk, "", junk},
		{"controllers --config " + junk, "", junk},
		{"node --config " + junk, "", junk},
		{up + " --proxy-mode ipvs --feature-gates KubeProxyIPVS=false", "",
			"flag --feature-gates, flag --proxy-mode: "},
		{up + " --oidc-groups-claim g", "", "flag --oidc-groups-claim: "},
		{up + " --authorization-webhook-config-file " + junk, "", "flag --authorization-webhook-config-file: "},
		{up + " --tls-cert-file " + junk, "", "flag --tls-cert-file: "},
		{up + " --tls-cert-file " + junk + " --tls-private-key-file " + junk, "",
			"flag --tls-cert-file, flag --tls-private-key-file: "},
		{up + " --admission-control-config-file " + junk, "", "flag --admission-control-config-file: "},
		{up + " --client-ca-file " + junk, "", "flag --client-ca-file: "},
		{up + " --encryption-provider-config " + junk, "", "flag --encryption-provider-config: "},
		{up + " --audit-log-path " + filepath.Join(dir, "audit") + " --audit-policy-file " + junk, "",
			"flag --audit-policy-file: "},
		{up + " --authentication-config " + junk, "", "flag --authentication-config: "},
		{up + " --authentication-token-webhook-config-file " + junk, "",
			"flag --authentication-token-webhook-config-file: "},
		{up + " --authorization-config " + junk, "", "flag --authorization-config: "},
		{up + " --authorization-mode Webhook --authorization-webhook-config-file " + junk, "",
			"flag --authorization-webhook-config-file: "},
		{up + " --token-auth-file " + junk, "", "flag --token-auth-file: "},
		{up + " --service-account-key-file " + junk, "", "flag --service-account-key-file: "},
		{up + " --service-account-signing-key-file " + junk, "", "flag --service-account-signing-key-file: "},
		{up + " --scheduler-config " + junk, "", "flag --scheduler-config: "},
		{up + " --registries " + junk, "", "flag --registries: "},
		{"token --life 48h", "", "--life"},
		{"create Ü --sim-nodes 1", "", `"Ü"`}, {"create ../x --sim-nodes 1", "", `"../x"`},
		{"create t --sim-nodes 0", "", "0 nodes"},
		{"create t --sim-nodes 1 --ports 1:1", "", "no ports"}, {"create t --sim-nodes 1 -- --listen :1", "",
			"--listen is set for every cluster"},
		{"create t --sim-nodes 1 -- --store paper", "", "flag --store: "},
		{"create t --sim-nodes 1 -- --stroe memory", "", "did you mean --store?"},
		{"install --root " + dir + " -- --store paper", "", "flag --store: "},
		{"install server --root " + dir + " -- --max-requests-inflight=-1", "", "--max-requests-inflight"},
		{"install node --root " + dir + " -- --poxy=false", "", "did you mean --proxy?"},
		{"install node --root " + dir + " -- --server https://h:1", "", "--token and --ca-hash"},
		{"install node --root " + dir + " -- --address 10.0.0.1,10.0.0.2", "", "one of IPv4 and one of IPv6"},
		{"node --server https://h:1", "", "--token and --ca-hash"},
	} {
		t.Run(tt.line+tt.env, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(name, value)
			}
			out, errs, code := typed(t, tt.line)
			if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, tt.wants) {
				t.Errorf("code %d, %q, %q, want %q", code, out, errs, tt.wants)
			}
		})
	}
}

func isSetting(f *flag.Flag) bool {
	_, ok := f.Value.(interface{ Section() string })
	return ok
}
