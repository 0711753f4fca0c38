package clusters

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestParsePort(t *testing.T) {
	for text, want := range map[string]string{"8080:80": "127.0.0.1:8080:80@1", "0.0.0.0:443:30443@2": "0.0.0.0:443:30443@2",
		"[::1]:1:2": "[::1]:1:2@1",
		"8080":      "", "8080:": "", ":80": "", "a:b": "", "0:80": "", "70000:80": "", "8080:80@0": "", "8080:80@x": "",
		"x:8080:80": "", "": ""} {
		p, err := ParsePort(text)
		if (err == nil) != (want != "") || err == nil && p.String() != want {
			t.Errorf("%q: %s, %v, want %q", text, p, err, want)
		}
		if err == nil {
			if again, err := ParsePort(p.String()); err != nil || again != p {
				t.Errorf("%s is read as %s, %v", p, again, err)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "dev-1": true, strings.Repeat("a", 24): true, "": false, "-a": false, "a-": false,
		"1a": false, "A": false,
		"a.b": false, "../a": false, "a/b": false, strings.Repeat("a", 25): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if OfContext("kloop-dev") != "dev" || OfContext("kind-dev") != "" || OfContext("kloop-") != "" {
		t.Error("the names of contexts are not told from others")
	}
}

// No two clusters of a machine share an address, a link or a port, stopped ones included.
func TestSideBySide(t *testing.T) {
	list := []*Cluster{{Name: "a", Index: 0}, {Name: "c", Index: 2, Simulated: true, API: 16443}}
	if i, err := free(list, func(int) bool { return true }); err != nil || i != 1 {
		t.Errorf("index %d, %v, want 1", i, err)
	}
	if i, err := free(list, func(i int) bool { return i > 4 }); err != nil || i != 5 {
		t.Errorf("index %d, %v, want 5: the networks below are in use", i, err)
	}
	if _, err := free(nil, func(int) bool { return false }); err == nil {
		t.Error("an index, and none is free")
	}
	if p, err := freePort(list); err != nil || p == 16443 {
		t.Errorf("port %d, %v: it is another cluster's", p, err)
	}
	web := Port{Host: 8080, Port: 80, Node: 1}
	a := &Cluster{Name: "a", Nodes: 1, Ports: []Port{web}}
	if err := a.beside(&Cluster{Name: "b", Ports: []Port{web}}); err == nil || !strings.Contains(err.Error(), "leads to cluster b") {
		t.Errorf("both have port 8080: %v", err)
	}
	if err := (Port{Host: 1, Port: 1, Node: 2}).check(a); err == nil {
		t.Error("a port leads to a node that there is not")
	}
}

// The disk of a cluster's nodes is their user's: a full one takes no images away and evicts no pods, unless the user says so.
func TestBorrowedDisk(t *testing.T) {
	c := &Cluster{Name: "a", Nodes: 2, Args: []string{"--eviction-hard", "none"}, NodeArgs: []string{"--eviction-hard", "none"}}
	for n := 1; n <= 2; n++ {
		line := strings.Join(c.command(n), " ")
		if !strings.Contains(line, "--image-gc-high-threshold 100 --eviction-hard memory.available<100Mi") {
			t.Errorf("node %d: %s", n, line)
		}
		if !strings.HasSuffix(line, "--eviction-hard none") {
			t.Errorf("node %d: what the user gave does not come last: %s", n, line)
		}
	}
	if err := checkArgs(c); err != nil {
		t.Errorf("what the user gave is refused: %v", err)
	}
	c.Args, c.NodeArgs = []string{"--config=own.yaml"}, []string{"--config=own.yaml"}
	for n := 1; n <= 2; n++ {
		if line := strings.Join(c.command(n), " "); strings.Contains(line, "eviction") {
			t.Errorf("node %d: flags win over the user's file: %s", n, line)
		}
	}
	sim := strings.Join((&Cluster{Name: "s", Nodes: 2, Simulated: true}).command(1), " ")
	if strings.Contains(sim, "eviction") {
		t.Errorf("simulated nodes have no disk: %s", sim)
	}
}

// TestWorkDir: a cluster outlives the directory in which it was made.
func TestWorkDir(t *testing.T) {
	dir := t.TempDir()
	for from, want := range map[string]string{"": "/", dir: dir, dir + "/gone": "/"} {
		if got := workDir(&Cluster{From: from}); got != want {
			t.Errorf("made in %q, it starts in %q, want %q", from, got, want)
		}
	}
}

// What is in the directory of clusters and is none is said, and hides no other.
func TestBrokenDescriptions(t *testing.T) {
	root := Root(t.TempDir())
	for name, text := range map[string]string{"good": `{"Name":"good","Nodes":1}`, "other": `{"Name":"x","Nodes":1}`, "torn": `{"Name":"to`,
		"many": `{"Name":"many","Nodes":0}`} {
		if err := os.MkdirAll(filepath.Join(string(root), name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(string(root), name, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := root.List()
	if len(list) != 1 || list[0].Name != "good" || err == nil {
		t.Fatalf("%v, %v", list, err)
	}
	for _, name := range []string{"other", "torn", "many"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("nothing is said of %s: %v", name, err)
		}
	}
}

// A kubeconfig that can't be read stays as it is, and a lock that somebody holds is waited for.
func TestEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("{ not: [a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := edit(path, func(*clientcmdapi.Config) { t.Error("changed") }); err == nil {
		t.Error("no error")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{ not: [a kubeconfig" {
		t.Errorf("it became %q, %v", text, err)
	}
	if err := Editable(path); err == nil || !strings.Contains(err.Error(), "mend it") {
		t.Errorf("%v", err)
	}
	home := t.TempDir()
	if err := Editable(filepath.Join(home, ".kube", "config")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("looking left %v, %v", left, err)
	}
	real := filepath.Join(t.TempDir(), "real")
	if err := os.Symlink(real, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(real+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- edit(path+"2", func(c *clientcmdapi.Config) { c.CurrentContext = "x" })
	}()
	if err := os.Remove(real + ".lock"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path + "2"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is one no more: %v", err)
	}
	if text, err := os.ReadFile(real); err != nil || !bytes.Contains(text, []byte("current-context: x")) {
		t.Errorf("%q, %v", text, err)
	}
}

// A port carries bytes both ways and half-closed connections, and ends with its context.
func TestCarry(t *testing.T) {
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	go func() {
		for {
			c, err := behind.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				text, _ := io.ReadAll(c) // until the other side has said all
				_, _ = c.Write(bytes.ToUpper(text))
			}()
		}
	}()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { carry(ctx, front, behind.Addr().String()); close(done) }()
	dial := func() *net.TCPConn {
		c, err := net.Dial("tcp", front.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c.(*net.TCPConn)
	}
	c := dial()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || string(text) != "HELLO" {
		t.Errorf("%q, %v", text, err)
	}
	open := dial()
	defer open.Close()
	if _, err := open.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it goes on behind its context")
	}
}
