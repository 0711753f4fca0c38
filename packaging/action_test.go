package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// release makes a directory as scripts/release does, with a program that says what it is called with.
func release(t *testing.T, name string) string {
	t.Helper()
	dir, program := t.TempDir(), "#!/bin/sh\necho kloop $*\n"
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "./kloop", Mode: 0o755, Size: int64(len(program))})
	_, werr := w.Write([]byte(program))
	if err := errors.Join(err, werr, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  %s\n", sha256.Sum256(archive.Bytes()), name)
	for file, text := range map[string]string{name: archive.String(), "SHA256SUMS": sums} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAction runs the step of the GitHub Action as a runner does, from files.
func TestAction(t *testing.T) {
	const name = "kloop_0.1.0_linux_amd64.tar.gz"
	good, broken := release(t, name), release(t, name)
	if err := os.WriteFile(filepath.Join(broken, name), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ what, from, version, arch, fails string }{
		{"a release", good, "v0.1.0", "X64", ""},
		{"another sum", broken, "v0.1.0", "X64", "FAILED"},
		{"no such archive", good, "v0.1.0", "ARM64", "404|not open|Couldn't|curl"},
		{"no version", good, "", "X64", "say which version"},
		{"another processor", good, "v0.1.0", "X86", "no kloop for X86"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			tmp := t.TempDir()
			env, path := filepath.Join(tmp, "env"), filepath.Join(tmp, "path")
			cmd := exec.CommandContext(t.Context(), "./action.sh")
			cmd.Env = append(os.Environ(), "KLOOP_URL=file://"+tt.from, "KLOOP_VERSION="+tt.version, "KLOOP_CONTROLLERS=1", "RUNNER_OS=Linux",
				"RUNNER_ARCH="+tt.arch, "RUNNER_TEMP="+tmp, "GITHUB_ENV="+env, "GITHUB_PATH="+path)
			out, err := cmd.CombinedOutput()
			if tt.fails != "" {
				said := false
				for word := range strings.SplitSeq(tt.fails, "|") {
					said = said || strings.Contains(string(out), word)
				}
				if err == nil || !said {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			dir := filepath.Join(tmp, "kloop-0.1.0")
			set, err1 := os.ReadFile(env)
			found, err2 := os.ReadFile(path)
			want := "KUBEBUILDER_ASSETS=kloop envtest use --bin-dir " + dir + " -p path\nKLOOP_CONTROLLERS=1\n"
			if errors.Join(err1, err2) != nil || string(set) != want || string(found) != dir+"\n" {
				t.Errorf("%v, %v: environment %q, path %q", err1, err2, set, found)
			}
			if to, err := os.Readlink(filepath.Join(dir, "setup-envtest")); err != nil || to != "kloop" {
				t.Errorf("setup-envtest leads to %q, %v", to, err)
			}
		})
	}
}
