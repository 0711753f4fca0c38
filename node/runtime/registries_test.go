package runtime

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/test/need"
)

func readRegistries(t *testing.T, text string) (*Registries, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registries.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadRegistries(path)
}

func TestRegistries(t *testing.T) {
	r, err := readRegistries(t, `
mirrors:
  docker.io: {endpoint: ["https://m.test:5000", "http://n.test/proxy/v2", o.test/v2]}
  "*": {endpoint: ["https://all.test"]}
configs:
  "m.test:5000": {auth: {username: u, password: p}, tls: {ca_file: /ca.pem, cert_file: /c.pem, key_file: /k.pem}}
  own.test: {tls: {insecure_skip_verify: true}}
`)
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.hosts()
	if err != nil {
		t.Fatal(err)
	}
	can := "\n  capabilities = [\"pull\", \"resolve\"]\n"
	for host, want := range map[string]string{
		"docker.io": "server = \"https://registry-1.docker.io\"\n\n[host.\"https://m.test:5000\"]" + can +
			"  ca = \"/ca.pem\"\n  client = [[\"/c.pem\", \"/k.pem\"]]\n\n[host.\"http://n.test/proxy/v2\"]" + can + "  override_path = true\n" +
			"\n[host.\"https://o.test\"]" + can,
		"_default": "\n[host.\"https://all.test\"]" + can,
		"own.test": "server = \"https://own.test\"\n\n[host.\"https://own.test\"]" + can + "  skip_verify = true\n",
		"m.test:5000": "server = \"https://m.test:5000\"\n\n[host.\"https://m.test:5000\"]" + can +
			"  ca = \"/ca.pem\"\n  client = [[\"/c.pem\", \"/k.pem\"]]\n",
	} {
		t.Run(host, func(t *testing.T) {
			if files[host] != want {
				t.Errorf("%s:\n%s\nwant\n%s", host, files[host], want)
			}
		})
	}
	if len(files) != 4 {
		t.Errorf("%d files", len(files))
	}
	for text, want := range map[string]string{
		"mirror: {}":                                              "mirror",
		"mirrors: {a/b: {endpoint: [x]}}":                         "no host",
		"mirrors: {..: {endpoint: [x]}}":                          "no host",
		"configs: {../x: {}}":                                     "no host",
		"mirrors: {a.test: {endpoint: ['ftp://x']}}":              "no address",
		"mirrors: {a.test: {endpoint: [x], rewrite: {a: b}}}":     "rewrite",
		"configs: {a.test: {tls: {cert_file: /c}}}":               "needs its key",
		"mirrors: {a.test: {endpoint: [\"https://x\\n[evil]\"]}}": "no address",
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := readRegistries(t, text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		})
	}
	if r, err := ReadRegistries(""); r != nil || err != nil {
		t.Error(r, err)
	}
}

// registry serves one image to who has a password.
func registry(t *testing.T) *httptest.Server {
	t.Helper()
	var archive bytes.Buffer
	if err := image.Pack(&archive, image.Spec{Ref: "reg.test/app:1",
		Files: []image.File{{Path: "/f", Mode: 0o644, Data: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
	blobs, tags := map[string][]byte{}, map[string]string{}
	for in := tar.NewReader(&archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		data, rerr := io.ReadAll(in)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		blobs[fmt.Sprintf("sha256:%x", sha256.Sum256(data))] = data
		if filepath.Base(h.Name) == "index.json" {
			var index struct{ Manifests []struct{ Digest string } }
			if err := json.Unmarshal(data, &index); err != nil {
				t.Fatal(err)
			}
			tags["1"] = index.Manifests[0].Digest
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		key := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if digest, ok := tags[key]; ok {
			key = digest
		}
		data, ok := blobs[key]
		if !ok || !strings.HasPrefix(r.URL.Path, "/v2/app/") {
			http.NotFound(w, r)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", key)
		}
		w.Write(data)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestMirror has a real containerd pull an image whose registry nobody can reach from a mirror that asks for a password. It needs root.
func TestMirror(t *testing.T) {
	dir, err := os.MkdirTemp("", "kloop") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	need.Have(t, need.Containerd, Available(Config{Dir: dir}))
	regs, err := readRegistries(t, "mirrors: {reg.test: {endpoint: ['"+registry(t).URL+"']}}")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, stop := context.WithCancel(ctx)
	c := New(Config{Dir: dir, Registries: regs})
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- c.Run(run, func() { close(ready) }) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	rt, err := Connect(ctx, c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	pull := &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "reg.test/app:1"}}
	if _, err := rt.Images.PullImage(ctx, pull); err == nil {
		t.Error("pulled without a password")
	}
	pull.Auth = &cri.AuthConfig{Username: "u", Password: "secret"}
	if _, err := rt.Images.PullImage(ctx, pull); err != nil {
		t.Error(err)
	}
}
