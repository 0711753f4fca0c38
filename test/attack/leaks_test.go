package attack

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/eventually"
)

// mark is what is in Secrets and must be nowhere else.
const mark = "marked-b7f1c0de"

const explained = "/apis/convergence.kloop.dev/v1alpha1"

// Two who fight over a Secret, and what waits for one: no value of it in any gap, fight, trail, metric, log, event or file, and
// who may not read it learns nothing of it but what the objects that it may read say.
func TestNoValueOfASecretLeaks(t *testing.T) {
	dir := t.TempDir()
	v := newVictim(t, cluster.Config{DataDir: dir, SimNodes: 1})
	v.bind("default", "view", "User", "viewer")
	viewer := v.as("viewer")
	eventually.Within(t, patience, "the viewer may list gaps", func() bool {
		code, _ := viewer.do(t, http.MethodGet, explained+"/namespaces/default/gaps", "")
		return code == http.StatusOK
	})
	secrets := "/api/v1/namespaces/default/secrets"
	v.admin.must(t, http.MethodPost, secrets, `{"metadata":{"name":"s"},"stringData":{"token":"`+mark+`"}}`)
	for i := range 24 {
		value := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%d", mark, i%2))
		body := fmt.Sprintf(
			`{"data":{"token":%q},"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":\"%s-%d\"}"}}}`, value,
			mark, i%2)
		v.admin.must(t, http.MethodPatch, secrets+"/s?fieldManager=m"+fmt.Sprint(i%2), body, "Content-Type", "application/merge-patch+json")
	}
	v.make("/api/v1/namespaces/default/pods", map[string]any{"metadata": named("p"), "spec": map[string]any{"nodeName": "none",
		"containers": []any{map[string]any{"name": "c", "image": "i", "envFrom": []any{map[string]any{"secretRef": named("missing")}}}}}})
	eventually.Within(t, patience, "the fight is known", func() bool {
		return strings.Contains(v.admin.must(t, http.MethodGet, explained+"/fights", ""), "data.token")
	})
	for _, path := range []string{explained + "/fights", explained + "/gaps", explained + "/loops", "/metrics", "/api/v1/events",
		"/flagz", "/statusz",
		"/convergence/trail?resource=secrets&namespace=default&name=s", "/debug/api_priority_and_fairness/dump_requests"} {
		_, text := v.admin.do(t, http.MethodGet, path, "")
		leaks(t, path, text)
	}
	for _, path := range []string{"/fights", "/gaps"} {
		if text := viewer.must(t, http.MethodGet, explained+"/namespaces/default"+path, ""); strings.Contains(text, "secrets:s") {
			t.Errorf("%s tells who may not read the Secret: %s", path, text)
		}
	}
	if err := v.Stop(); err != nil {
		t.Fatal(err)
	}
	inFiles(t, dir)
}

func leaks(t *testing.T, where, text string) {
	t.Helper()
	for _, m := range []string{mark, base64.StdEncoding.EncodeToString([]byte(mark))[:16]} {
		if at := strings.Index(text, m); at >= 0 {
			t.Errorf("%s has the value of a Secret: …%s…", where, text[max(0, at-80):min(len(text), at+80)])
		}
	}
}

// inFiles looks at all files but those of the store.
func inFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "/etcd/") || strings.Contains(path, "/snapshots/") {
			return err
		}
		data, err := os.ReadFile(path)
		leaks(t, path, string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Gaps of objects without a namespace lie in the namespace default: who may view that, and not the objects, does not see them.
func TestGapsOfOthersStayUnseen(t *testing.T) {
	v := newVictim(t, cluster.Config{})
	v.bind("default", "view", "User", "viewer")
	viewer := v.as("viewer")
	v.make("/api/v1/namespaces", map[string]any{"metadata": named("hush")})
	v.make("/api/v1/namespaces/hush/configmaps", map[string]any{"metadata": map[string]any{"name": "held",
		"finalizers": []string{"example.com/never"}}})
	v.admin.must(t, http.MethodDelete, "/api/v1/namespaces/hush", "")
	// Nobody asks for all gaps before: a gap that is not ripe at the first look may not be looked at again for long.
	gaps := explained + "/namespaces/default/gaps"
	eventually.Within(t, patience, "the gap of the namespace can be asked for", func() bool {
		code, text := v.admin.do(t, http.MethodGet, gaps+"/namespaces:hush", "")
		return code == http.StatusOK && strings.Contains(text, "example.com/never")
	})
	eventually.Within(t, patience, "the viewer may list gaps", func() bool {
		code, _ := viewer.do(t, http.MethodGet, gaps, "")
		return code == http.StatusOK
	})
	if text := viewer.must(t, http.MethodGet, gaps, ""); strings.Contains(text, "hush") {
		t.Errorf("the viewer learns of a namespace: %s", text)
	}
	if code, text := viewer.do(t, http.MethodGet, gaps+"/namespaces:hush", ""); code != http.StatusNotFound {
		t.Errorf("the viewer asks for it: %d %s", code, text)
	}
}
