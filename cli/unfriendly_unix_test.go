//go:build unix

package cli

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/test/need"
)

// nobody is the user who has no rights on a machine.
const nobody = 65534

// asUser is kloop as a user without rights, at home in a directory and with nothing else in the environment.
func asUser(t *testing.T, home, line string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", strings.Fields(line)...) // the file itself is in a directory of root's
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Dir, cmd.Env = "/", append([]string{asKloop + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + home}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tree is all that lies in a directory, by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d == nil || d.IsDir() { // one that is locked has nothing to see
			return nil
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Where a command can't do what it was to do it says what to do next, and leaves everything as it was.
func TestUnfriendlyPlaces(t *testing.T) {
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("there is no /proc")
	}
	for _, tt := range []struct {
		name, line string
		env        []string
		set        func(home string) error // the home is writable, and empty
		wants      string
	}{
		{"no home", "create x --sim-nodes 1", []string{"HOME="}, nil, "set HOME"},
		{"a home that is read-only", "create x --sim-nodes 1", nil, readOnly(""), "another file with --kubeconfig or KUBECONFIG"},
		{"a kubeconfig that is read-only", "create x --sim-nodes 1", nil, put(".kube/config", "{}", 0o444), "chmod u+w"},
		{"a kubeconfig in a read-only directory", "create x --sim-nodes 1", nil, readOnly(".kube"), "let its directory be written"},
		{"a corrupted kubeconfig", "create x --sim-nodes 1", nil, put(".kube/config", ": {{", 0o600), "mend it, or move it away"},
		{"a directory for a kubeconfig", "create x --sim-nodes 1", nil, put(".kube/config/x", "", 0o600), "mend it, or move it away"},
		{"a file for its directory", "create x --sim-nodes 1", nil, put(".kube", "", 0o600), "another file with --kubeconfig"},
		{"clusters of another user", "create x --sim-nodes 1", []string{"KLOOP_CLUSTERS=/usr/lib/x"}, nil, "KLOOP_CLUSTERS names another"},
		{"no root", "create x", nil, nil, "--sim-nodes"},
		{"another's flags", "create x --sim-nodes 1 -- --listen=127.0.0.1:1", nil, nil, "--listen is set for every cluster"},
		{"another's data", "up --store etcd --node none --data-dir /usr/lib/x", nil, nil, "with --data-dir"},
		{"another's server", "server --data-dir /usr/lib/x", nil, nil, "with --data-dir"},
		{"another's keys", "token --data-dir HOME/d", nil, locked("d"), "use sudo"},
		{"another's keys for a user", "kubeconfig --user u --data-dir HOME/d", nil, locked("d"), "use sudo"},
		{"another's directory for pages", "man /usr/lib/x", nil, nil, "a directory of your own"},
		{"another's directory for links", "envtest /usr/lib/x", nil, nil, "a directory of your own"},
		{"another's machine", "reset --yes --data-dir HOME", nil, put("kloop.pid", "1", 0o600), "use sudo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, err := os.MkdirTemp("", "kloop-home")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(home) })
			if tt.set != nil {
				if err := tt.set(home); err != nil {
					t.Fatal(err)
				}
			}
			if err := give(home); err != nil {
				t.Fatal(err)
			}
			before := tree(t, home)
			out, err := asUser(t, home, strings.ReplaceAll(tt.line, "HOME", home), tt.env...)
			if err == nil || !strings.Contains(out, tt.wants) || strings.Count(out, "\n") != 1 {
				t.Errorf("%v, %q, want %q", err, out, tt.wants)
			}
			if after := tree(t, home); !maps.Equal(before, after) {
				t.Errorf("it was %v and is %v", before, after)
			}
		})
	}
}

// put writes a file into a home.
func put(name, text string, mode os.FileMode) func(string) error {
	return func(home string) error {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), mode)
	}
}

// readOnly makes a directory in a home, or the home, read-only.
func readOnly(name string) func(string) error {
	return func(home string) error {
		path := filepath.Join(home, name)
		return errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o555))
	}
}

// give makes a home the user's own, if there is a choice.
func give(home string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
}

// locked makes a data directory whose keys nobody but root may see.
func locked(name string) func(string) error {
	return func(home string) error { return os.MkdirAll(filepath.Join(home, name, "pki"), 0) }
}

// A disk that is full keeps a cluster from being made, and costs nothing that was there.
func TestFullDisk(t *testing.T) {
	need.BeRoot(t)
	script := `set -e
mount -t tmpfs -o size=64k none "$1"
printf '{"current-context": "mine"}' >"$1/config"
dd if=/dev/zero of="$1/fill" bs=1k 2>/dev/null || true
/proc/$PPID/exe create x --sim-nodes 1 && exit 9
cat "$1/config"; ls -A "$1" "$2"`
	disk, clusters := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script, "sh", disk, clusters)
	cmd.Env = append(os.Environ(), asKloop+"=1", "KUBECONFIG="+disk+"/config", "KLOOP_CLUSTERS="+clusters)
	out, err := cmd.CombinedOutput()
	want := `{"current-context": "mine"}` + disk + ":\nconfig\nfill\n\n" + clusters + ":\n"
	if err != nil || !strings.Contains(string(out), "make room for it") || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}

// A certificate that is not good yet is told with where to look: it is the clock as a rule.
func TestClockBehind(t *testing.T) {
	keys, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(48 * time.Hour)
	cert, key, err := keys.CA.Issue(pki.Leaf{User: "server", Server: true, Hosts: []string{"127.0.0.1"}}, later)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that turn away
	s.StartTLS()
	defer s.Close()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: keys.CA.PEM()}
	cfg.Contexts["c"], cfg.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "c"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"status", "loops", "gaps", "why pod/a", "trace pod/a", "diff", "member list", "certs list",
		"backup " + path + ".b"} {
		out, errs, code := typed(t, line+" --kubeconfig "+path)
		if code != 1 || !strings.Contains(out+errs, "look at the clocks") {
			t.Errorf("%s: code %d, %q, %q", line, code, out, errs)
		}
	}
}
