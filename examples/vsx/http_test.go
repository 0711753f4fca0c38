package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/engine"
	"github.com/kloop-dev/kloop/engine/disk"
	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
	"github.com/kloop-dev/kloop/examples/vsx/lab"
	"github.com/kloop-dev/kloop/test/need"
)

// A bench is the whole program with two switches that it reaches over HTTPS, and kubectl. The switches' time runs fast.
type bench struct {
	*testing.T
	lab     *lab.Lab
	kubectl string
	config  string
	pair    string // the file with the pair
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, config: filepath.Join(t.TempDir(), "kubeconfig"), pair: filepath.Join(t.TempDir(), "pair.yaml")}
	var err error
	if b.kubectl, err = filepath.Abs("../../bin/kubectl"); err == nil {
		if _, err = os.Stat(b.kubectl); err != nil {
			b.kubectl, err = exec.LookPath("kubectl")
		}
	}
	if err != nil {
		need.Have(t, need.Kubectl, errors.New("make bin/kubectl builds one"))
	}
	start := time.Now()
	b.lab = lab.New(func() time.Time { return start.Add(20 * time.Since(start)) })
	text, err := os.ReadFile("pair.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []string{"https://127.0.0.1:8441", "https://127.0.0.1:8442"} {
		s := httptest.NewUnstartedServer(b.lab.Switch(i))
		s.Config.ErrorLog = nil
		s.StartTLS()
		t.Cleanup(s.Close)
		sum := sha256.Sum256(s.Certificate().Raw)
		text = []byte(strings.NewReplacer(at, s.URL, "FINGERPRINT-"+string(rune('1'+i)), hex.EncodeToString(sum[:])).Replace(string(text)))
	}
	if err := os.WriteFile(b.pair, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	dir := filepath.Join(t.TempDir(), "data")
	go func() {
		ended <- serve(ctx, engine.Config{DataDir: dir, Store: disk.Etcd(), Listen: "127.0.0.1:0", Kubeconfig: b.config}, 500*time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	b.until("the API answers", "v1", "version", "-o", "yaml")
	return b
}

// run runs kubectl.
func (b *bench) run(args ...string) (string, error) {
	cmd := exec.CommandContext(b.Context(), b.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.config, "HOME="+filepath.Dir(b.config))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b *bench) must(args ...string) string {
	b.Helper()
	out, err := b.run(args...)
	if err != nil {
		b.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return out
}

// until runs kubectl until it prints a text.
func (b *bench) until(what, text string, args ...string) {
	b.Helper()
	var out string
	for range 300 {
		var err error
		if out, err = b.run(args...); err == nil && strings.Contains(out, text) {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	b.Fatalf("not within the bound: %s: kubectl %v says %s\n%s", what, args, out, strings.Join(b.lab.Writes(), "\n"))
}

// has waits until a switch has an attribute.
func (b *bench) has(i int, path, name string, want any) {
	b.Helper()
	for range 300 {
		if b.lab.Switch(i).Attribute(path, name) == want {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	b.Fatalf("%s of %s is %v on %d, not %v", name, path, b.lab.Switch(i).Attribute(path, name), i, want)
}

// TestKubectl: with a real kubectl against the whole program, from new switches to the pair, through drift, a dry run and a pause.
func TestKubectl(t *testing.T) {
	b := newBench(t)
	out := b.must("apply", "-f", b.pair)
	if !strings.Contains(out, "vsxpair.network.kloop.dev/core created") {
		t.Fatal(out)
	}
	ready := []string{"get", "vsx", "core", "-o", "jsonpath={.status.conditions[0].status} {.status.conditions[0].reason}"}
	b.until("the pair is as wanted", "True AsWanted", ready...)
	table := strings.Join(strings.Fields(b.must("get", "vsx")), " ")
	if !strings.Contains(table, "core In-Sync Established In-Sync core01 Peer-Established core02 Peer-Established reachable True") {
		t.Errorf("kubectl get vsx prints %s", table)
	}
	if show := b.lab.Switch(0).ShowVSXStatus(); !strings.Contains(show, "ISL channel             : In-Sync") {
		t.Errorf("the console says %s", show)
	}
	const lag = "system/interfaces/lag1"
	b.lab.Switch(1).CLI(lag, "lacp", "passive")
	b.has(1, lag, "lacp", "active")
	b.until("the pair is as wanted again", "True AsWanted", ready...)

	b.must("annotate", "vsx", "core", engine.ModeAnnotation+"="+engine.ModeObserve)
	b.lab.Switch(1).CLI(lag, "lacp", "passive")
	b.until("drift is reported", "core02: lag1: multi-chassis", "get", "vsx", "core", "-o", "jsonpath={.status.missing}")
	b.until("and is the reason", "False Drift", ready...)
	if got := b.lab.Switch(1).Attribute(lag, "lacp"); got != "passive" {
		t.Errorf("a dry run wrote: lacp is %v", got)
	}
	b.must("annotate", "--overwrite", "vsx", "core", engine.ModeAnnotation+"="+engine.ModePause)
	b.until("it is paused", "Unknown Paused", ready...)
	b.must("annotate", "vsx", "core", engine.ModeAnnotation+"-")
	b.until("and goes on", "True AsWanted", ready...)

	patch := func(text string) (string, error) { return b.run("patch", "vsx", "core", "--type=merge", "-p", text) }
	if out, err := patch(`{"spec":{"keepalive":{"port":"1/1/55"}}}`); err == nil || !strings.Contains(out, "a port of its own") {
		t.Errorf("a keepalive over the ISL is taken: %s", out)
	}
	if out, err := patch(`{"spec":{"linkupDelay":60}}`); err != nil {
		t.Error(out)
	}
	b.has(0, "system/vsx", "linkup_delay_timer", 60.0)
	b.has(1, "system/vsx", "linkup_delay_timer", 60.0) // the primary's copy
	b.until("the change is made", "True AsWanted", ready...)
	for _, f := range b.lab.Faults() {
		t.Error(f)
	}
	b.must("delete", "vsx", "core")
	if role := b.lab.Switch(0).Attribute("system/vsx", "device_role"); role != "primary" {
		t.Errorf("deleting the object took the pair apart: %v", role)
	}
}

// TestFingerprint: another certificate than the one of the spec is not believed, and the password is not sent.
func TestFingerprint(t *testing.T) {
	asked := false
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer s.Close()
	o := newOperator(func(context.Context, string, string) (map[string][]byte, error) {
		return map[string][]byte{"username": []byte("admin")}, nil
	}, aoscx.Transport)
	for _, print := range []string{strings.Repeat("ab", 32), ""} {
		c, err := o.client(t.Context(), "default", Device{Address: s.URL, Fingerprint: print})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.VSX(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") || asked {
			t.Errorf("with the fingerprint %q: %v, the switch was asked: %v", print, err, asked)
		}
	}
}
