package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/store/sealed"
)

const hidden = "nobody-may-read-this-on-disk"

func encryptionFile(t *testing.T, path, providers string) {
	t.Helper()
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets, configmaps]\n" +
		"  providers: [" + providers + "]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func provider(kind string, b byte) string {
	return "{" + kind + ": {keys: [{name: k" + string(b) + ", secret: " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b},
		32)) + "}]}}"
}

// TestEncryptionAtRest keeps a Secret through a change of keys and looks for it in clear on the disk.
func TestEncryptionAtRest(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "enc.yaml")
	encryptionFile(t, file, provider("aesgcm", '1'))
	cfg := Config{Kit: whole.Kit(), DataDir: dir, NoLoops: true, EncryptionConfig: file, Log: slog.New(slog.DiscardHandler)}
	c, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = c.Stop()
		}
	}()
	rest, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	secrets := kubernetes.NewForConfigOrDie(rest).CoreV1().Secrets("default")
	made, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"k": hidden}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st := c.door.store.(*sealed.Store)
	raw := func() string {
		t.Helper()
		kv, _, err := st.Store.Get(ctx, "/registry/secrets/default/s")
		if err != nil || kv == nil {
			t.Fatal(kv, err)
		}
		return string(kv.Value)
	}
	stored := func(prefix string) {
		t.Helper()
		if v := raw(); !strings.HasPrefix(v, prefix) || strings.Contains(v, hidden) {
			t.Errorf("stored as %.60q, want %s", v, prefix)
		}
	}
	stored("k8s:enc:aesgcm:v1:k1:")

	if again, err := secrets.Update(ctx, made, metav1.UpdateOptions{}); err != nil || again.ResourceVersion != made.ResourceVersion {
		t.Errorf("an update of nothing was stored: %v", err)
	}
	encryptionFile(t, file, provider("secretbox", '2')+", "+provider("aesgcm", '1'))
	if changed, err := c.files[0].look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	moved, err := secrets.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil || moved.ResourceVersion == made.ResourceVersion {
		t.Errorf("an update of nothing was not stored under the new key: %v", err)
	}
	stored("k8s:enc:secretbox:v1:k2:")

	encryptionFile(t, file, provider("aescbc", '3')) // the key is lost
	if changed, err := c.files[0].look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	eventually.Within(t, 10*time.Minute, "the lost Secret is reported", func() bool { // when the view has read all again
		_, err := secrets.Get(ctx, "s", metav1.GetOptions{})
		return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "/registry/secrets/default/s")
	})
	for name, f := range map[string]func() error{
		"list":   func() error { _, err := secrets.List(ctx, metav1.ListOptions{}); return err },
		"update": func() error { _, err := secrets.Update(ctx, moved, metav1.UpdateOptions{}); return err },
		"delete": func() error { return secrets.Delete(ctx, "s", metav1.DeleteOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := f(); !apierrors.IsInternalError(err) {
				t.Errorf("%s of what can't be read: %v", name, err)
			}
		})
	}
	if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("one lost Secret keeps others from being made: %v", err)
	}
	encryptionFile(t, file, provider("aescbc", '3')+", "+provider("secretbox", '2')) // and found
	if changed, err := c.files[0].look(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	eventually.Within(t, 10*time.Minute, "the Secret is back", func() bool {
		got, err := secrets.Get(ctx, "s", metav1.GetOptions{})
		return err == nil && string(got.Data["k"]) == hidden
	})
	stopped = true
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte(hidden)) {
			t.Errorf("%s holds the secret in clear (%v)", path, err)
		}
		return nil
	})
}

func TestEncryptionOfCustomResources(t *testing.T) {
	if gr := customKey("/registry/example.com/widgets/ns/w").String(); gr != "widgets.example.com" {
		t.Error(gr)
	}
}
