package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/test/need"
)

// A forge is a Git server with one repository, which only who knows the password may read.
type forge struct {
	t         *testing.T
	url, work string
}

func newForge(t *testing.T) *forge {
	_, err := exec.LookPath("git")
	need.Have(t, "git", err)
	dir := t.TempDir()
	f := &forge{t, "", filepath.Join(dir, "work")}
	bare := filepath.Join(dir, "site.git")
	f.run("", "init", "-q", "--bare", "-b", "main", bare)
	f.run("", "clone", "-q", bare, f.work)
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "kloop" || password != "geheim" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL + "/site.git"
	return f
}

func (f *forge) run(dir string, args ...string) string {
	f.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push commits files ("": none) and returns the commit.
func (f *forge) push(files map[string]string) string {
	f.t.Helper()
	for name, text := range files {
		path := filepath.Join(f.work, name)
		if text == "" {
			f.run(f.work, "rm", "-q", name)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	f.run(f.work, "add", "-A")
	f.run(f.work, "commit", "-qm", "change")
	f.run(f.work, "push", "-q", "origin", "HEAD:main")
	return f.run(f.work, "rev-parse", "HEAD")
}

func pageOf(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: site}\ndata: {a: %q}\n---\n", name, value)
}

// TestGitSource follows a repository through commits, bad and good, and through changes of its objects by others.
func TestGitSource(t *testing.T) {
	f := newForge(t)
	const space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: site}\n---\n"
	commit := f.push(map[string]string{"prod/site.yaml": space + pageOf("one", "1") + pageOf("two", "1"),
		"other/no.yaml": pageOf("no", "1")})
	c := start(t, cluster.Config{GitSources: true, GitDir: t.TempDir()})
	cfg := config(t, c)
	cs := kubernetes.NewForConfigOrDie(cfg)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "git"},
		StringData: map[string]string{"username": "kloop", "password": "geheim"}}
	sources := dynamic.NewForConfigOrDie(cfg).Resource(
		schema.GroupVersionResource{Group: "sync.kloop.dev", Version: "v1alpha1", Resource: "gitsources"})
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sync.kloop.dev/v1alpha1", "kind": "GitSource",
		"metadata": map[string]any{"name": "site"},
		"spec":     map[string]any{"url": f.url, "path": "prod", "interval": "1s", "secretName": "git"}}}
	eventually(t, "the kind is served", func(ctx context.Context) (bool, error) {
		_, err := sources.Create(ctx, obj, metav1.CreateOptions{})
		return err == nil, nil
	})
	shows := func(what, commit, reason, part string) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, error) {
			s, err := sources.Get(ctx, "site", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			applied, _, _ := unstructured.NestedString(s.Object, "status", "commit")
			text := fmt.Sprint(s.Object["status"])
			return applied == commit && strings.Contains(text, "reason:"+reason+" ") && strings.Contains(text, part), nil
		})
	}
	shows("no credentials", "", "NoSecret", "secrets \"git\" not found")
	if _, err := cs.CoreV1().Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	holds := holder(t, cs.CoreV1().ConfigMaps("site"))
	shows("the first commit", commit, "Applied", "reason:Converged")
	holds("all of it", "one=1 two=1")

	drift := []byte(`{"data":{"a":"9"}}`)
	if _, err := cs.CoreV1().ConfigMaps("site").Patch(t.Context(), "one", types.MergePatchType, drift, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("drift is taken back", "one=1 two=1")

	f.push(map[string]string{"prod/site.yaml": pageOf("one", "2") + "kind: {"})
	shows("a file that is no YAML", commit, "BadManifests", "site.yaml")
	f.push(map[string]string{"prod/site.yaml": pageOf("one", "2") + strings.Replace(pageOf("two", "2"), "data: {a", "data: {'a b'", 1)})
	shows("an object that the server would refuse", commit, "NotApplied", "a b")
	holds("nothing of either", "one=1 two=1")

	commit = f.push(map[string]string{"prod/site.yaml": pageOf("one", "3")})
	shows("mended", commit, "Applied", "")
	holds("changed and pruned", "one=3")
	f.push(map[string]string{"prod/site.yaml": ""})
	shows("an empty path", commit, "NoManifests", "nothing is changed or deleted")
	holds("loses nothing", "one=3")
	f.run(f.work, "revert", "--no-edit", "HEAD")
	commit = f.push(map[string]string{"prod/more.yaml": pageOf("more", "1")})
	shows("reverted", commit, "Applied", "")
	holds("and more", "more=1 one=3")

	if err := sources.Delete(t.Context(), "site", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("a source that is deleted leaves what it made", "more=1 one=3")
}

// TestGitSourceThousand: a commit with 1,000 objects is applied with little work, and so is one that changes a single one of them.
func TestGitSourceThousand(t *testing.T) {
	const many = 1000
	f := newForge(t)
	pages := func(first string) string {
		var b strings.Builder
		b.WriteString(pageOf("n0", first))
		for i := 1; i < many; i++ {
			b.WriteString(pageOf(fmt.Sprint("n", i), "1"))
		}
		return b.String()
	}
	const space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: site}\n---\n"
	commit := f.push(map[string]string{"site.yaml": space + pages("1")})
	c := start(t, cluster.Config{GitSources: true, GitDir: t.TempDir()})
	cfg := config(t, c)
	cs := kubernetes.NewForConfigOrDie(cfg)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "git"},
		StringData: map[string]string{"username": "kloop", "password": "geheim"}}
	if _, err := cs.CoreV1().Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sources := dynamic.NewForConfigOrDie(cfg).Resource(
		schema.GroupVersionResource{Group: "sync.kloop.dev", Version: "v1alpha1", Resource: "gitsources"})
	applied := func(commit string) (took, cpu time.Duration) {
		t.Helper()
		since, began := time.Now(), worked(t)
		eventually(t, "all is applied", func(ctx context.Context) (bool, error) {
			s, err := sources.Get(ctx, "site", metav1.GetOptions{})
			if err != nil {
				return false, nil
			}
			has, _, _ := unstructured.NestedString(s.Object, "status", "commit")
			return has == commit, nil
		})
		return time.Since(since), worked(t) - began
	}
	source := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sync.kloop.dev/v1alpha1", "kind": "GitSource",
		"metadata": map[string]any{"name": "site"}, "spec": map[string]any{"url": f.url, "secretName": "git", "interval": "1s"}}}
	eventually(t, "the kind is served", func(ctx context.Context) (bool, error) {
		_, err := sources.Create(ctx, source, metav1.CreateOptions{})
		return err == nil, nil
	})
	revisions := func() map[string]string {
		t.Helper()
		list, err := cs.CoreV1().ConfigMaps("site").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for i := range list.Items {
			all[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		return all
	}
	took, first := applied(commit)
	before := revisions()
	again, second := applied(f.push(map[string]string{"site.yaml": space + pages("2")}))
	after := revisions()
	maps.DeleteFunc(after, func(name, revision string) bool { return before[name] == revision })
	if len(before) < many || len(after) != 1 || after["n0"] == "" {
		t.Errorf("%d objects are there, want %d; a commit that changes n0 wrote %v", len(before), many, after)
	}
	t.Logf("%d objects in %s, %s of CPU; a change of one in %s, %s of CPU", many, took, first, again, second)
}

// worked returns the CPU time of this process and of the git that it ran.
func worked(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var use syscall.Rusage
		if err := syscall.Getrusage(who, &use); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	return sum
}
