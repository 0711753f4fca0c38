package settings

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const header = "apiVersion: kloop.dev/v1alpha1\nkind: Config\n"

func TestLoad(t *testing.T) {
	o := Defaults()
	s := New(&o)
	err := s.read("f.yaml", strings.NewReader(header+`
network:
  serviceCIDRs: [10.50.0.0/20, fd00::/112]
  nodePorts: 31000-31099
tokens: &tokens
  issuer: https://example.com
admission:
  disable:
  - ServiceAccount
  - NodeRestriction
authorization: {modes: RBAC}
featureGates: {WatchList: false}
controllers:
  run: ["*", -deployment-controller]
  nodeMonitorGrace: 8s
  nodeMonitorPeriod: 1s
api:
  anonymous: false
simulation: {nodes: 3}
encryption:
node: ~
`))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"network.serviceCIDRs": "10.50.0.0/20,fd00::/112", "network.nodePorts": "31000-31099",
		"tokens.issuer": "https://example.com", "admission.disable": "ServiceAccount,NodeRestriction", "authorization.modes": "RBAC",
		"featureGates": "WatchList=false", "controllers.run": "*,-deployment-controller", "controllers.nodeMonitorGrace": "8s",
		"api.anonymous":    "false",
		"simulation.nodes": "3", "store": "etcd"} {
		t.Run(key, func(t *testing.T) {
			if got := s.find(key).text(); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		})
	}
	if !o.NoAnonymous || o.NodeMonitorPeriod != time.Second || o.NodePortHigh != 31099 || o.SimNodes != 3 {
		t.Errorf("options: %+v", o)
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct{ text, wants string }{
		{header + "netwrok: {}", "f.yaml:3: there is no setting netwrok; did you mean network?"},
		{header + "network:\n  servicecidr: [10.0.0.0/16]", "f.yaml:4: there is no setting network.servicecidr; did you mean serviceCIDRs?"},
		{header + "colour: red", "f.yaml:3: there is no setting colour"},
		{header + "log: info\nlog: debug", "f.yaml:4: log is set in line 3 already"},
		{header + "network: {nodePorts: many}", `f.yaml:3: network.nodePorts: "many" is not a range of ports`},
		{header + "network: {serviceCIDRs: [10.0.0.0]}", "is not a range of addresses"},
		{header + "network: 10.0.0.0/8", "f.yaml:3: network holds the settings serviceCIDRs, podCIDR, nodePorts"},
		{header + "log: [a]", "f.yaml:3: log: want one value"},
		{header + "featureGates: [WatchList]", "want names and values"},
		{header + "featureGates: {WatchList: perhaps}", "use NAME=true or NAME=false"},
		{header + "api: {anonymous: never}", "neither true nor false"},
		{header + "controllers: {nodeMonitorGrace: 8}", "is not a duration"},
		{header + "---\nlog: info", "one document is enough"},
		{"apiVersion: v1\nkind: Config\n", `f.yaml:1: apiVersion is "v1"`},
		{"apiVersion: kloop.dev/v1alpha1\n", `kind is ""`},
		{"- a", "want keys and values"},
		{"", "want keys and values"},
		{header + "a: {{", "f.yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			o := Defaults()
			if err := New(&o).read("f.yaml", strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("%q:\ngot  %v\nwant %s", tt.text, err, tt.wants)
			}
		})
	}
}

// TestOrder sets one thing in several places.
func TestOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kloop.yaml")
	if err := os.WriteFile(file, []byte(header+"log: warn\ndataDir: /file\nstore: memory\napi: {hosts: [file]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"KLOOP_LOG": "error", "KLOOP_DATA_DIR": "/env"}[name]
		return v, ok
	}
	o := Defaults()
	s := New(&o)
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	path := s.Bind(fs, Up)
	if err := fs.Parse([]string{"--config", file, "--log", "debug", "--hosts", "a", "--hosts", "b,c", "--anonymous-auth=false"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(*path, env); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][2]string{"log": {"debug", "flag --log"}, "dataDir": {"/env", "environment KLOOP_DATA_DIR"},
		"store": {"memory", file + ":5"}, "api.hosts": {"a,b,c", "flag --hosts"}, "api.listen": {":6443", ""}, "api.anonymous": {"false",
			"flag --anonymous-auth"}} {
		t.Run(key, func(t *testing.T) {
			if set := s.find(key); set.text() != want[0] || set.from != want[1] {
				t.Errorf("%s is %q from %q, want %q", key, set.text(), set.from, want)
			}
		})
	}
}

// TestShared hands on what a cluster's other nodes have, too: the flags of kloop node among those given, in one form, and the file.
func TestShared(t *testing.T) {
	o := Defaults()
	s := New(&o)
	fs := flag.NewFlagSet("up", flag.ContinueOnError)
	s.Bind(fs, Up)
	err := fs.Parse([]string{"--proxy-mode", "ipvs", "--sim-nodes=2", "-dns=false", "--config", "own.yaml",
		"--dns-upstream=192.0.2.1", "--dns-upstream=192.0.2.2"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--dns=false", "--dns-upstream=192.0.2.1", "--dns-upstream=192.0.2.2", "--proxy-mode=ipvs", "--config=own.yaml"}
	if got := s.Shared(Node); !slices.Equal(got, want) {
		t.Errorf("handed on: %q, want %q", got, want)
	}
}

// TestShowIsAFile reads what was shown: the same settings come out.
func TestShowIsAFile(t *testing.T) {
	o := Defaults()
	s := New(&o)
	if err := s.read("f", strings.NewReader(header+
		"log: debug\nfeatureGates: {WatchList: false}\nadmission: {disable: [A, B]}\n")); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	if err := s.Show(&shown); err != nil {
		t.Fatal(err)
	}
	again := Defaults()
	if err := New(&again).read("shown", bytes.NewReader(shown.Bytes())); err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	if !reflect.DeepEqual(o, again) {
		t.Errorf("shown:\n%s\nread back: %+v, want %+v", shown.String(), again, o)
	}
	if !strings.Contains(shown.String(), "# f:3") || !strings.Contains(shown.String(), "# default") {
		t.Errorf("origins are missing:\n%s", shown.String())
	}
}

// TestEveryFieldIsSet sets every setting to something else and wants another configuration each time: no setting
// is bound to nothing, or to the field of another.
func TestEveryFieldIsSet(t *testing.T) {
	other := map[reflect.Type]string{reflect.TypeFor[number](): "7", reflect.TypeFor[negated](): "false", reflect.TypeFor[boolean](): "true",
		reflect.TypeFor[period]():  "7s",
		reflect.TypeFor[address](): "10.7.0.1", reflect.TypeFor[addresses](): "10.7.0.1",
		reflect.TypeFor[prefixes](): "10.7.0.0/16", reflect.TypeFor[ports](): "7-77", reflect.TypeFor[gates](): "A=true",
		reflect.TypeFor[pairs](): "a=b", reflect.TypeFor[limit](): "7", reflect.TypeFor[file](): "settings_test.go",
		reflect.TypeFor[files]():    "settings_test.go",
		reflect.TypeFor[endpoint](): "h:1", reflect.TypeFor[socket](): "/run/c.sock"}
	base := Defaults()
	flags := map[string]string{}
	for i, set := range New(&base).list {
		o := Defaults()
		s := New(&o)
		text := other[reflect.TypeOf(set.value)]
		if text == "" {
			text = "other"
		}
		if set.text() == "true" {
			text = "false"
		}
		if c, ok := set.value.(choice); ok {
			text = strings.Fields(c.all)[1]
			if text == set.text() {
				text = strings.Fields(c.all)[0]
			}
		}
		if err := s.Set(set.Key, text, "test"); err != nil {
			t.Errorf("%s: %v", set.Key, err)
		}
		if reflect.DeepEqual(o, base) {
			t.Errorf("%s changes nothing", set.Key)
		}
		for j, them := range s.list {
			if j != i && them.text() != New(&base).list[j].text() {
				t.Errorf("%s changes %s too", set.Key, them.Key)
			}
		}
		if who, taken := flags[set.Flag]; taken || set.Flag == "" || set.Doc == "" || set.For == 0 {
			t.Errorf("%s: flag %q (also of %q), doc %q", set.Key, set.Flag, who, set.Doc)
		}
		flags[set.Flag] = set.Key
	}
}

// TestDocs holds docs/config.md to the table. With KLOOP_WRITE=1 it writes the table there.
func TestDocs(t *testing.T) {
	const path, begin, end = "../../docs/config.md", "<!-- the table follows; a test writes it -->\n", "<!-- end of the table -->"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("docs/config.md has no place for the table")
	}
	o := Defaults()
	want := New(&o).Markdown()
	if table == want {
		return
	}
	if os.Getenv("KLOOP_WRITE") == "" {
		t.Fatal("docs/config.md is out of step: KLOOP_WRITE=1 go test ./cli/settings -run TestDocs")
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDocsExample reads the example of docs/config.md.
func TestDocsExample(t *testing.T) {
	data, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	o := Defaults()
	if err := New(&o).read("example", strings.NewReader(example)); err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	o := Defaults()
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	New(&o).Bind(fs, Up)
	if got := Explain(fs, []string{"--log", "info", "--datadir=/x"}); got != "; did you mean --data-dir?" {
		t.Errorf("got %q", got)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(header + "network: {serviceCIDRs: [10.0.0.0/16]}\n")
	f.Add(header + "a: &a [*a]\nfeatureGates: *a\n")
	f.Add("\x00")
	f.Fuzz(func(t *testing.T, text string) {
		o := Defaults()
		_ = New(&o).read("f", strings.NewReader(text)) // must return
	})
}

// TestKubeProxyArgs reads the arguments of kube-proxy where files of RKE have them.
func TestKubeProxyArgs(t *testing.T) {
	const args = "extra_args: {proxy-mode: ipvs, ipvs-scheduler: lc, ipvs-strict-arp: false, ipvs-exclude-cidrs: 10.0.0.0/8}"
	for _, text := range []string{"kubeproxy: {" + args + "}", "services: {kubeproxy: {" + args + "}}"} {
		o := Defaults()
		if err := New(&o).read("f.yaml", strings.NewReader(header+text)); err != nil {
			t.Fatal(err)
		}
		if o.ProxyMode != "ipvs" || o.ProxyScheduler != "lc" || !o.IPVS.LooseARP || len(o.IPVS.Exclude) != 1 {
			t.Errorf("%s: %+v", text, o.IPVS)
		}
	}
	o := Defaults()
	err := New(&o).read("f.yaml", strings.NewReader(header+"kubeproxy: {extra_args: {ipvs-schedule: lc}}"))
	if err == nil || !strings.Contains(err.Error(), "f.yaml:3: kloop has no argument ipvs-schedule") {
		t.Error(err)
	}
}

func TestSocket(t *testing.T) {
	for endpoint, want := range map[string]string{"": "", "unix:///run/c.sock": "/run/c.sock", "/run/c.sock": "/run/c.sock",
		"tcp://127.0.0.1:1": "error", "npipe:////./pipe/c": "error", "c.sock": "error", "unix://c.sock": "error"} {
		got, err := Socket(endpoint)
		if err != nil && strings.Contains(err.Error(), "want the socket") {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", endpoint, got, want)
		}
	}
}

// What is a secret among the settings is told to nobody, in no form.
func TestSecretsAreNotShown(t *testing.T) {
	o := Defaults()
	s := New(&o)
	for key, value := range map[string]string{"peers.token": "S3CRET", "trail.export": "http://me:S3CRET@collector:4318/v1/traces"} {
		if err := s.Set(key, value, "test"); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := s.Show(&out); err != nil {
		t.Fatal(err)
	}
	effects, err := s.Effects()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), fmt.Sprint(effects), fmt.Sprint(s.Flags())} {
		if strings.Contains(text, "S3CRET") || !strings.Contains(text, "CLASSIFIED") || !strings.Contains(text, "@collector:4318") {
			t.Errorf("told: %s", text)
		}
	}
}
