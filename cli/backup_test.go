package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// said runs a command and returns what it printed.
func said(t *testing.T, f func(context.Context, stdio, []string) error, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := f(t.Context(), stdio{in: strings.NewReader(""), out: &out, err: t.Output()}, args)
	return out.String(), err
}

func runServer(t *testing.T, dir string) (*cluster.Cluster, *kubernetes.Clientset) {
	t.Helper()
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), DataDir: dir, NoLoops: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	return c, kubernetes.NewForConfigOrDie(cfg)
}

// What is saved from a running server, or from one that was stopped, comes back; with the keys, old kubeconfigs too.
func TestBackupAndRestore(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	c, client := runServer(t, dir)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	saved := map[string][]string{
		"running":            {"--data-dir", dir},
		"running, with keys": {"--data-dir", dir, "--keys"},
		"by kubeconfig":      {"--kubeconfig", filepath.Join(dir, "admin.kubeconfig")},
	}
	for name, args := range saved {
		t.Run(name, func(t *testing.T) {
			if out, err := said(t, backup, append(args, filepath.Join(files, name))...); err != nil {
				t.Fatalf("%s: %v, %s", name, err, out)
			}
		})
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	saved["stopped"] = nil
	if _, err := said(t, backup, "--data-dir", dir, filepath.Join(files, "stopped")); err != nil {
		t.Fatal(err)
	}
	for name := range saved {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "restored")
			if _, err := said(t, restore, "--data-dir", to, filepath.Join(files, name)); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(to, "restore*")); len(left) > 0 {
				t.Errorf("%v is left behind", left)
			}
			c, client := runServer(t, to)
			defer c.Stop()
			if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			old, err := os.ReadFile(filepath.Join(dir, "pki", "ca.key"))
			if err != nil {
				t.Fatal(err)
			}
			now, err := os.ReadFile(filepath.Join(to, "pki", "ca.key"))
			if err != nil || bytes.Equal(old, now) != strings.Contains(name, "keys") {
				t.Errorf("the same keys: %v, %v", bytes.Equal(old, now), err)
			}
		})
	}
}

func TestBackupSaysWhatIsWrong(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--data-dir", none, "x"}, "there is no store"},
		{[]string{"--data-dir", none, "--keys", "x"}, "there is no store"},
		{[]string{"--kubeconfig", none, "x"}, "wrong usage"},
		{[]string{"--kubeconfig", "backup_test.go", "--keys", "x"}, "on the server's own machine"},
	} {
		if _, err := said(t, backup, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("backup %s: %v", strings.Join(tt.args, " "), err)
		}
	}
}

// A backup that a newer kloop wrote is refused before anything is made of it.
func TestBackupOfNewer(t *testing.T) {
	dir := t.TempDir()
	file, to := filepath.Join(dir, "new.tar"), filepath.Join(dir, "to")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	note := `{"format":99,"program":"v1.99.0"}`
	head := &tar.Header{Name: backupFormat, Mode: 0o600, Size: int64(len(note)), Format: tar.FormatPAX}
	if err := w.WriteHeader(head); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(note)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := said(t, restore, "--data-dir", to, file)
	if !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(to, "*")); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

// A backup that ends in the middle of its keys leaves nothing behind that the next one would take for the cluster's keys.
func TestBackupCutShort(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	at := map[string]int{}
	for _, name := range []string{backupStore, "pki/ca.crt", "pki/ca.key", "pki/sa.key"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(name)), Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
		at[name] = b.Len()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "to")
	for _, tt := range []struct {
		name  string
		size  int
		holds string
	}{
		{"cut within the last key", at["pki/sa.key"] - 1, ""},
		{"whole", b.Len(), "pki/ca.crt pki/ca.key pki/sa.key restore.db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(dir, "backup.tar")
			if err := os.WriteFile(file, b.Bytes()[:tt.size], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := unpackBackup(file, to); (err == nil) != (tt.holds != "") {
				t.Error(err)
			}
			var holds []string
			err := filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					name, _ := filepath.Rel(to, path)
					holds = append(holds, filepath.ToSlash(name))
				}
				return err
			})
			if err != nil || strings.Join(holds, " ") != tt.holds {
				t.Errorf("the directory holds %v, %v", holds, err)
			}
		})
	}
}

// The names of members are the servers'; one that takes no others shows itself.
func TestMemberOfALoneServer(t *testing.T) {
	dir := t.TempDir()
	c, _ := runServer(t, dir)
	defer c.Stop()
	out, err := said(t, member, "list", "--kubeconfig", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil || !strings.Contains(out, "--peer-listen") || strings.Count(out, "true") != 1 {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := said(t, member, "remove", "x", "--kubeconfig", filepath.Join(dir, "admin.kubeconfig")); err == nil ||
		errors.Is(err, errUsage) {
		t.Errorf("flags behind the words: %v", err)
	}
	text, err := said(t, token, "--data-dir", dir)
	if err != nil || !strings.HasPrefix(text, "kloop-join.") {
		t.Errorf("token %q, %v", text, err)
	}
}
