package past_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// marked are values of Secrets.
const (
	markedOld = "MARKED-value-of-before"
	markedNew = "MARKED-value-of-after"
)

// A world is a cluster with simulated nodes, and who asks it.
type world struct {
	t      *testing.T
	dir    string
	cfg    cluster.Config
	run    *cluster.Cluster
	cs     *kubernetes.Clientset
	told   bytes.Buffer // all that was ever printed
	config string
}

func newWorld(t *testing.T, cfg cluster.Config) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), cfg: cfg}
	w.cfg.DataDir, w.cfg.SimNodes, w.cfg.Log = w.dir, 2, slog.New(slog.DiscardHandler)
	w.config = filepath.Join(w.dir, "admin.kubeconfig")
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.cfg.Kit = whole.Kit()
	if w.run, err = cluster.Start(context.Background(), w.cfg); err != nil {
		w.t.Fatal(err)
	}
	rest, err := w.run.Rest()
	if err != nil {
		w.t.Fatal(err)
	}
	rest.QPS = -1
	if w.cs, err = kubernetes.NewForConfig(rest); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	if err := w.run.Stop(); err != nil {
		w.t.Errorf("stop: %v", err)
	}
}

// kloop runs a command and returns what it prints, which is to end with a code.
func (w *world) kloop(code int, args ...string) string {
	w.t.Helper()
	var out bytes.Buffer
	args = append([]string{"kloop", args[0], "--kubeconfig", w.config}, args[1:]...)
	if got := cli.Run(w.t.Context(), strings.NewReader(""), &out, &out, args); got != code {
		w.t.Fatalf("%v ends with %d:\n%s", args, got, &out)
	}
	w.told.Write(out.Bytes())
	return out.String()
}

// says fails unless a text has all the words.
func (w *world) says(text string, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.t.Errorf("nothing says %q:\n%s", word, text)
		}
	}
}

func (w *world) silent(text string, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if strings.Contains(text, word) {
			w.t.Errorf("%q should not be told:\n%s", word, text)
		}
	}
}

func (w *world) until(what string, f func(ctx context.Context) (bool, error)) {
	w.t.Helper()
	if err := wait.PollUntilContextTimeout(w.t.Context(), 10*time.Millisecond, 5*time.Minute, true, f); err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const ns = "shop"

// begin makes what was there before, and returns a time behind it.
func (w *world) begin() string {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	must[*corev1.Namespace](t)(w.cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		metav1.CreateOptions{}))
	must[*corev1.ConfigMap](t)(w.cs.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"},
		Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}))
	must[*corev1.Secret](t)(w.cs.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"},
		StringData: map[string]string{"token": markedOld}}, metav1.CreateOptions{}))
	labels := map[string]string{"app": "web"}
	two := int32(2)
	must[*appsv1.Deployment](t)(w.cs.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:v1"}}}}}}, metav1.CreateOptions{}))
	w.ready(2, "web:v1")
	at := time.Now()
	w.until("a second to go by", func(context.Context) (bool, error) { return time.Since(at) > time.Second, nil })
	return at.UTC().Format(time.RFC3339Nano)
}

// ready waits for a rollout.
func (w *world) ready(n int32, image string) {
	w.t.Helper()
	w.until("ready pods", func(ctx context.Context) (bool, error) {
		d, err := w.cs.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == n && d.Status.UpdatedReplicas == n && d.Status.Replicas == n &&
			d.Status.ObservedGeneration == d.Generation && d.Spec.Template.Spec.Containers[0].Image == image, err
	})
}

// harm changes much.
func (w *world) harm() {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	must[*appsv1.Deployment](t)(w.cs.AppsV1().Deployments(ns).Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","image":"web:v2"}]}}}}`), metav1.PatchOptions{}))
	w.ready(3, "web:v2")
	must[*corev1.Secret](t)(w.cs.CoreV1().Secrets(ns).Patch(ctx, "db", types.MergePatchType,
		[]byte(`{"stringData":{"token":"`+markedNew+`"}}`), metav1.PatchOptions{}))
	if err := w.cs.CoreV1().ConfigMaps(ns).Delete(ctx, "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	must[*corev1.ConfigMap](t)(w.cs.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "extra"}},
		metav1.CreateOptions{}))
}

// TestPast looks back at what a person did, as an administrator and as somebody with few rights, before and after a restart, and undoes it.
func TestPast(t *testing.T) {
	for name, encrypted := range map[string]bool{"clear": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			var cfg cluster.Config
			if encrypted {
				cfg.EncryptionConfig = encryption(t)
			}
			w := newWorld(t, cfg)
			began := w.begin()
			w.harm()
			w.looksBack(began)
			w.fewRights(began)
			w.stop()
			w.start()
			w.looksBack(began)
			w.undoes(began, encrypted)
			w.noSecrets(encrypted)
		})
	}
}

func encryption(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "enc.yaml")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets]\n" +
		"  providers: [{aesgcm: {keys: [{name: k, secret: " + key + "}]}}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) looksBack(began string) {
	w.t.Helper()
	text := w.kloop(0, "diff", "--since", began, "-n", ns)
	w.says(text, "kubernetes-admin", "changed deployment/web in shop", "spec.replicas: 2 → 3",
		"spec.template.spec.containers[web].image: web:v1 → web:v2", "deployment created shop: replicaset/web-",
		"replicaset created shop: pod/web-", "data.token: (secret) → (secret)", "deleted configmap/settings in shop",
		"created configmap/extra in shop")
	w.silent(text, "status", "resourceVersion")
	w.silent(w.kloop(0, "diff", "--since", began, "-n", ns, "configmap/settings"), "deployment")
	w.silent(w.kloop(0, "diff", "--since", began, "--by", "nobody"), "shop")
	w.says(w.kloop(0, "diff", "--since", began, "-n", ns, "-o", "json", "--status"), `"status.readyReplicas"`)
	w.says(w.kloop(0, "why", "deployment/web", "--at", began, "-n", ns), "was what it should be")
	w.says(w.kloop(1, "why", "configmap/extra", "--at", began, "-n", ns), "there was no configmap/extra")
	w.says(w.kloop(0, "why", "configmap/settings", "--at", began, "-n", ns), "was what it should be")
}

// fewRights asks as somebody who may read ConfigMaps of the namespace, and nothing else.
func (w *world) fewRights(began string) {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	must[*rbacv1.Role](t)(w.cs.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}},
		metav1.CreateOptions{}))
	must[*rbacv1.RoleBinding](t)(w.cs.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}}}, metav1.CreateOptions{}))
	as := []string{"--as", "jane", "--as-group", "system:authenticated", "-n", ns}
	text := w.kloop(0, append([]string{"diff", "--since", began}, as...)...)
	w.says(text, "configmap/settings", "configmap/extra")
	w.silent(text, "deployment", "secret", "pod/", "kubernetes-admin")
	w.says(w.kloop(1, append([]string{"undo", "configmap/settings"}, as...)...), "configmap/settings in shop made anew", "cannot create")
	w.silent(w.kloop(0, append([]string{"why", "--at", began}, as...)...), "secret/db", "deployment/web")
	w.says(w.kloop(1, append([]string{"why", "deployment/web", "--at", began}, as...)...), "that you may see")
}

// undoes tries, does it, and compares with what was.
func (w *world) undoes(began string, encrypted bool) {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	all := []string{"undo", "--since", began, "-n", ns}
	shown := w.kloop(0, all...)
	w.says(shown, "deployment/web in shop as it was", "spec.replicas: 3 → 2", "image: web:v2 → web:v1",
		"configmap/settings in shop made anew", "configmap/extra in shop deleted", "nothing was changed", "--yes")
	if encrypted {
		w.says(shown, "secret/db in shop as it was", "data.token: (secret) → (secret)")
	} else {
		w.says(shown, "secret/db in shop can't be undone: values of Secrets are kept only where the store encrypts them")
	}
	if _, err := w.cs.CoreV1().ConfigMaps(ns).Get(ctx, "extra", metav1.GetOptions{}); err != nil {
		t.Fatalf("a try changed something: %v", err)
	}
	w.says(w.kloop(0, append(all, "--yes")...), "undone:")
	w.ready(2, "web:v1")
	if c := must[*corev1.ConfigMap](t)(w.cs.CoreV1().ConfigMaps(ns).Get(ctx, "settings", metav1.GetOptions{})); c.Data["a"] != "1" {
		t.Errorf("the deleted object came back as %v", c.Data)
	}
	if _, err := w.cs.CoreV1().ConfigMaps(ns).Get(ctx, "extra", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was made is still there: %v", err)
	}
	want := map[bool]string{true: markedOld, false: markedNew}[encrypted]
	if s := must[*corev1.Secret](t)(w.cs.CoreV1().Secrets(ns).Get(ctx, "db", metav1.GetOptions{})); string(s.Data["token"]) != want {
		t.Errorf("the Secret holds %q", s.Data["token"])
	}
}

// noSecrets looks for the marked values in all that was printed, and in all files but the store's own.
func (w *world) noSecrets(encrypted bool) {
	w.t.Helper()
	searched := map[string]int{} // bytes, by directory
	look := func(where string, data []byte) {
		searched[filepath.Base(filepath.Dir(where))] += len(data)
		for _, value := range []string{markedOld, markedNew} {
			if bytes.Contains(data, []byte(value)) || bytes.Contains(data, []byte(base64.StdEncoding.EncodeToString([]byte(value)))) {
				w.t.Errorf("%s has the value %q", where, value)
			}
		}
	}
	look("printed", w.told.Bytes())
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && !encrypted && (d.Name() == "etcd" || d.Name() == "snapshots") {
				return filepath.SkipDir
			}
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".history") {
			data = unpacked(w.t, data)
		}
		look(path, data)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if searched["history"] == 0 || searched["trail"] == 0 {
		w.t.Errorf("looked only into %v", searched)
	}
}

// unpacked reads a file of the history by the description in docs/why.md.
func unpacked(t *testing.T, data []byte) (out []byte) {
	t.Helper()
	const header = 44
	for len(data) >= header {
		size := int(binary.BigEndian.Uint32(data[36:]))
		chunk, err := io.ReadAll(flate.NewReader(bytes.NewReader(data[header : header+size])))
		if err != nil {
			t.Fatal(err)
		}
		out, data = append(out, chunk...), data[header+size:]
	}
	return out
}

// TestNoPast says what a server that keeps no past can't do.
func TestNoPast(t *testing.T) {
	w := newWorld(t, cluster.Config{NoTrail: true})
	for _, args := range [][]string{{"diff"}, {"undo", "--since", "5m"}, {"why", "--at", "1m"}} {
		w.says(w.kloop(1, args...), "the server keeps no past", "--no-trail")
	}
}

// TestUndoNamespace brings back a namespace with what was in it.
func TestUndoNamespace(t *testing.T) {
	w := newWorld(t, cluster.Config{})
	began := w.begin()
	if err := w.cs.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("the namespace to be gone", func(ctx context.Context) (bool, error) {
		_, err := w.cs.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	w.says(w.kloop(0, "undo", "--since", began, "--yes"), "namespace/shop made anew", "configmap/settings in shop made anew",
		"deployment/web in shop made anew", "secret/db in shop can't be undone")
	w.ready(2, "web:v1")
}
