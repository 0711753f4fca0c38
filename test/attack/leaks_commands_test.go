package attack

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
)

// Every command that looks at a cluster, back and ahead, and the page's own server: none shows a value of a Secret, or an annotation
// that repeats one, not even to who may read it. Values lie where the store encrypts them, so that undo has them.
func TestNoCommandShowsAValueOfASecret(t *testing.T) {
	dir := t.TempDir()
	enc := filepath.Join(dir, "enc.yaml")
	write(t, enc, "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets]\n"+
		"  providers: [{aesgcm: {keys: [{name: k, secret: "+base64.StdEncoding.EncodeToString(make([]byte, 32))+"}]}}]\n")
	v := newVictim(t, cluster.Config{DataDir: filepath.Join(dir, "data"), SimNodes: 1, EncryptionConfig: enc})
	config, err := v.Kubeconfig("kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, string(config))

	secrets := "/api/v1/namespaces/default/secrets"
	secret := func(name string, turn int) string {
		value := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%d", mark, turn))
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"annotations":{"example.com/original":"%[3]s-%[2]d",`+
			`"kubectl.kubernetes.io/last-applied-configuration":"%[3]s"}},"data":{"token":%[4]q}}`, name, turn, mark, value)
	}
	for _, name := range []string{"s", "gone"} {
		v.admin.must(t, http.MethodPost, secrets, secret(name, 0))
		v.admin.must(t, http.MethodPut, secrets+"/"+name, secret(name, 1))
	}
	v.admin.must(t, http.MethodDelete, secrets+"/gone", "")
	v.make("/api/v1/namespaces/default/pods", map[string]any{"metadata": named("p"), "spec": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "i", "envFrom": []any{map[string]any{"secretRef": named("s")}}}}}})
	manifest := filepath.Join(dir, "change.yaml")
	bad := strings.Replace(secret("docker", 2), `"data":{"token":`, `"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":`, 1)
	write(t, manifest, secret("s", 2)+"\n---\n"+bad+"\n---\n"+strings.Replace(secret("late", 2), `"data"`, `"dota"`, 1))

	saved := filepath.Join(dir, "saved")
	for _, words := range [][]string{
		{"diff"}, {"diff", "-o", "json", "--status"}, {"diff", "secret/s"},
		{"undo", "secret/s"}, {"undo", "secret/gone"}, {"undo", "--since", "1h"},
		{"plan", "-f", manifest}, {"plan", "-f", manifest, "-o", "json"}, {"plan", "delete", "secret/s"}, {"plan", "--save", saved},
		{"trace", "secret/s"}, {"why"}, {"why", "-o", "json"}, {"why", "secret/s"},
		{"why", "--at", "1s"}, {"gaps"}, {"loops"},
	} {
		var out bytes.Buffer
		line := slices.Concat([]string{"kloop"}, words, []string{"--kubeconfig", kubeconfig})
		code := cli.Run(t.Context(), strings.NewReader(""), &out, &out, line)
		if code == 2 || out.Len() == 0 && words[1] != "--save" {
			t.Errorf("%v ends with %d: %s", words, code, &out)
		}
		leaks(t, fmt.Sprint(words), out.String())
		if words[0] == "undo" && !strings.Contains(out.String(), "nothing was changed") {
			t.Errorf("%v undoes nothing: %s", words, &out)
		}
	}
	throughPage(t, kubeconfig, secret("s", 2))
	inFiles(t, filepath.Join(dir, "data"))
	data, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	leaks(t, "the saved fork", string(data))
}

// throughPage asks the server of kloop ui, as a browser.
func throughPage(t *testing.T, kubeconfig, manifest string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	from, to := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, strings.NewReader(""), to, to, []string{"kloop", "ui", "--kubeconfig", kubeconfig})
		_ = to.Close()
	}()
	defer func() { stop(); _, _ = io.Copy(io.Discard, from); <-ended }()
	first := make([]byte, 4096)
	n, err := from.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, from) }()
	link, _, _ := strings.Cut(string(first[:n]), "\n")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience}
	defer browser.CloseIdleConnections()
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	base := at.Scheme + "://" + at.Host
	do := func(method, path, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		leaks(t, path, string(text))
	}
	do(http.MethodGet, link, "")
	for _, path := range []string{"/ui/", "/local/about", "/local/gaps", "/local/gap?namespace=default&resource=secrets&name=s",
		"/api/v1/namespaces/default/secrets",
		"/api/v1/namespaces/default/secrets/s", "/api/v1/events", "/convergence/trail?resource=secrets&namespace=default&name=s",
		"/convergence/past?whole=true&secrets=true", explained + "/gaps", explained + "/fights"} {
		do(http.MethodGet, base+path, "")
	}
	body := fmt.Sprintf(`{"words":[],"manifest":%q}`, manifest)
	do(http.MethodPost, base+"/local/plan", body)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
