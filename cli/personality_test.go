package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/cli/upstream"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/features"
)

// understood is what kloop makes of a command line of kube-apiserver.
func understood(t *testing.T, line string) (*apiserving, error) {
	t.Helper()
	flags, err := upstream.APIServer().Parse(strings.Fields(line))
	if err != nil {
		return nil, err
	}
	p := &apiserving{std: stdio{nil, &bytes.Buffer{}, &bytes.Buffer{}}, listen: "0.0.0.0", port: "6443", certDir: t.TempDir(),
		o: settings.Defaults()}
	p.o.Controllers, p.o.SimNodes, p.o.LogLevel = nil, 0, "warn"
	p.sheet = settings.New(&p.o)
	return p, p.fill(flags)
}

// TestAPIServerFlags is the command line of envtest.
func TestAPIServerFlags(t *testing.T) {
	t.Setenv("KLOOP_CONTROLLERS", "0")
	dir := t.TempDir()
	for _, name := range []string{"client-cert-auth-ca.crt", "sa-signer.crt", "more.crt", "sa-signer.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := understood(t, strings.ReplaceAll(`--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/nowhere
		--client-ca-file=/d/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1
		--secure-port=4321 --service-account-issuer=https://127.0.0.1:4321/ --service-account-key-file=/d/sa-signer.crt
		--service-account-key-file=/d/more.crt --service-account-signing-key-file=/d/sa-signer.key --service-cluster-ip-range=10.0.0.0/24
		--feature-gates=WatchList=false,Other=true --external-hostname=h --v=2`, "/d/", dir+"/"))
	if err != nil {
		t.Fatal(err)
	}
	c := p.o.Config
	for what, got := range map[string][2]string{
		"listen": {c.Listen, "127.0.0.1:4321"}, "modes": {strings.Join(c.Authorization, " "), "RBAC"},
		"clients": {c.ClientCA, dir + "/client-cert-auth-ca.crt"},
		"plugins": {strings.Join(c.AdmissionOff, " "), "ServiceAccount"}, "etcd": {strings.Join(c.EtcdServers, " "), "http://127.0.0.1:1"},
		"keys": {strings.Join(c.TokenKeys, " "), dir + "/sa-signer.crt " + dir + "/more.crt"}, "key": {c.TokenKey, dir + "/sa-signer.key"},
		"issuer": {c.Issuer, "https://127.0.0.1:4321/"},
		"ranges": {c.ServiceCIDRs[0].String(), "10.0.0.0/24"}, "log": {p.o.LogLevel, "info"}, "hosts": {strings.Join(c.Hosts, " "), "h"},
		"idle": {strings.Join(p.idle, " "), "--allow-privileged=true --feature-gates=Other=true"}} {
		t.Run(what, func(t *testing.T) {
			if got[0] != got[1] {
				t.Errorf("%s: %q, want %q", what, got[0], got[1])
			}
		})
	}
	if !c.NoLoops || c.SimNodes != 0 || c.Features["WatchList"] || len(c.Features) != 1 {
		t.Errorf("loops off: %v, %d nodes, gates %v", c.NoLoops, c.SimNodes, c.Features)
	}
	if said := p.std.err.(*bytes.Buffer).String(); !strings.Contains(said, "allow-privileged") {
		t.Errorf("the log says %q", said)
	}
}

// TestAPIServerVersion takes the flags of a 1.36, whose gates are known by their names there.
func TestAPIServerVersion(t *testing.T) {
	p, err := understood(t,
		`--etcd-servers=http://127.0.0.1:1 --feature-gates=SidecarContainers=true,kube:WatchList=false --feature-gates=ImageVolume=false
		--emulated-version=kube=1.36 --runtime-config=apps/v1=false,v1`)
	if err != nil {
		t.Fatal(err)
	}
	c := p.o.Config
	if c.EmulatedVersion != "kube=1.36" || !c.Features["SidecarContainers"] || c.Features["WatchList"] || len(c.Features) != 2 ||
		c.RuntimeConfig["apps/v1"] || !c.RuntimeConfig["v1"] {
		t.Errorf("%q %v %v", c.EmulatedVersion, c.Features, c.RuntimeConfig)
	}
	if got := strings.Join(p.idle, " "); got != "--feature-gates=ImageVolume=false" {
		t.Errorf("passed over %s", got)
	}
}

func TestAPIServerRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "--etcd-servers must be specified",
		"--etcd-servers=x --wrong":   "unknown flag: --wrong",
		"--etcd-prefix=/other":       "below /registry",
		"--service-cluster-ip-range": "flag needs a value",
		"--etcd-servers=http://x --emulated-version=kube=1.35": `version "1.35" can't be emulated: use 1.36 or 1.37`,
		"--etcd-servers=http://x --service-node-port-range=x":  "is not a range of ports",
	} {
		t.Run(line, func(t *testing.T) {
			if _, err := understood(t, line); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q in it", line, err, want)
			}
		})
	}
}

func TestControllersByEnvironment(t *testing.T) {
	tests := []struct {
		controllers, nodes string
		loops              bool
		wantNodes          int
	}{
		{"", "", false, 0}, {"0", "", false, 0}, {"1", "", true, 1}, {"1", "3", true, 3}, {"true", "0", true, 0}, {"garbage-collector",
			"", true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.controllers+"/"+tt.nodes, func(t *testing.T) {
			t.Setenv("KLOOP_CONTROLLERS", tt.controllers)
			if tt.nodes != "" {
				t.Setenv("KLOOP_SIM_NODES", tt.nodes)
			}
			p, err := understood(t, "--etcd-servers=http://x")
			if err != nil {
				t.Fatal(err)
			}
			if p.o.NoLoops == tt.loops || p.o.SimNodes != tt.wantNodes {
				t.Errorf("loops %v, %d nodes", !p.o.NoLoops, p.o.SimNodes)
			}
		})
	}
}

func TestEtcdFlags(t *testing.T) {
	read := func(line string) (etcdMember, error) {
		flags, err := upstream.Etcd().Parse(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		return readMember(flags)
	}
	m,
		err := read(
		"--listen-peer-urls=http://127.0.0.1:1 --data-dir=/d --advertise-client-urls=http://127.0.0.1:2 " +
			"--listen-client-urls=http://127.0.0.1:2 --unsafe-no-fsync=true --snapshot-count 5")
	if err != nil {
		t.Fatal(err)
	}
	if m.cfg.Dir != "/d" || m.listen != "127.0.0.1:2" || !m.cfg.NoSync || strings.Join(m.idle, " ") != "--snapshot-count=5" {
		t.Errorf("got %+v", m)
	}
	for line, want := range map[string]string{
		"--listen-client-urls=https://a:1":            "in the clear only",
		"--listen-client-urls=http://a:1,http://b:1":  "at one address",
		"--initial-cluster=a=http://a:1,b=http://b:1": "one member",
		"--cert-file=x":              "in the clear only",
		"--quota-backend-bytes=much": "--quota-backend-bytes=much",
	} {
		t.Run(line, func(t *testing.T) {
			if _, err := read(line); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", line, err, want)
			}
		})
	}
}

// TestEnvtestFarm makes the directory, twice, and refuses to replace what is no link.
func TestEnvtestFarm(t *testing.T) {
	bin, dir := t.TempDir(), filepath.Join(t.TempDir(), "assets")
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	for range 2 {
		var out bytes.Buffer
		if err := command1(t.Context(), t, "envtest "+dir, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != "export KUBEBUILDER_ASSETS="+dir+"\n" {
			t.Errorf("said %q", out.String())
		}
	}
	self := filepath.Join(dir, "kloop") // the test's own file goes, as that of go run
	for name, want := range map[string]string{"kube-apiserver": self, "etcd": self, "kubectl": filepath.Join(bin, "kubectl")} {
		t.Run(name, func(t *testing.T) {
			if got, err := os.Readlink(filepath.Join(dir, name)); err != nil || got != want {
				t.Errorf("%s leads to %s, %v; want %s", name, got, err, want)
			}
		})
	}
	if err := os.Remove(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := command1(t.Context(), t, "envtest "+dir, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "no link") {
		t.Errorf("a file in the way: %v", err)
	}
}

// TestSetupEnvtest is how the Makefile of a scaffold asks for binaries, without a kubectl on the machine.
func TestSetupEnvtest(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	bin := t.TempDir()
	want := filepath.Join(bin, "k8s", features.Release+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	for _, tt := range []struct{ line, out, says string }{
		{"use 1.37 --bin-dir " + bin + " -p path", want, "no kubectl"},
		{"use --bin-dir=" + bin + " -p env 1.37.x!", "export KUBEBUILDER_ASSETS='" + want + "'\n", ""},
		{"use latest -i --bin-dir " + bin, "Version: " + features.Release, ""},
		{"use 1.31.0 --bin-dir " + bin + " -p path", want, "1.31.0 was asked for"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Run(t.Context(), nil, &out, &errs, append([]string{"/x/setup-envtest"}, strings.Fields(tt.line)...))
			if code != 0 || !strings.HasPrefix(out.String(), tt.out) || !strings.Contains(errs.String(), tt.says) {
				t.Errorf("%s: %d, %q, %q", tt.line, code, &out, &errs)
			}
		})
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if info, err := os.Stat(filepath.Join(want, name)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, line := range []string{"list", "use -p json", "use 1 2"} {
		if code := Run(t.Context(), nil, io.Discard, io.Discard, append([]string{"setup-envtest"}, strings.Fields(line)...)); code == 0 {
			t.Errorf("%s went well", line)
		}
	}
}

func TestLasting(t *testing.T) {
	for path, want := range map[string]bool{"/usr/bin/kloop": true, "/tmp/go-build17/b001/exe/kloop": false,
		"/home/a/.cache/go-build/3f/3f-d/kloop": false, "/home/a/go/bin/kloop": true} {
		t.Run(path, func(t *testing.T) {
			if lasting(path) != want {
				t.Errorf("%s: %v", path, !want)
			}
		})
	}
}

func TestConfigShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kloop.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kloop.dev/v1alpha1\nkind: Config\nlog: warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KLOOP_STORE", cluster.StoreMemory)
	var out bytes.Buffer
	if err := command1(t.Context(), t, "config show --config "+file+" --sim-nodes 2", &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`log: "warn"`, "# " + file + ":3", `store: "memory"`, "# environment KLOOP_STORE", `nodes: "2"`,
		"# flag --sim-nodes", `listen: ":6443"`, "# default"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
