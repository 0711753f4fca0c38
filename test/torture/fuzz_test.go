package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// A target is a server for the fuzzers of this process.
type target struct {
	door *http.Client
	host string
	err  error
}

// fuzzed starts the server when the first fuzzer asks for it. It ends with the process.
var fuzzed = sync.OnceValue(func() *target {
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), NoLoops: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return &target{err: err}
	}
	cfg, err := c.Rest()
	if err != nil {
		return &target{err: err}
	}
	x := &target{host: cfg.Host}
	if x.door, x.err = rest.HTTPClientFor(cfg); x.err == nil {
		for _, body := range bodies[:2] {
			x.ask(http.MethodPost, fuzzPaths[body == bodies[1]], "application/json", []byte(body))
		}
	}
	return x
})

var fuzzPaths = map[bool]string{false: "/api/v1/namespaces/default/configmaps", true: "/apis/apps/v1/namespaces/default/deployments"}

// ask makes a request and returns what is wrong with the server by its answer; "" when nothing is.
func (x *target) ask(method, path, typ string, body []byte) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, x.host+path, bytes.NewReader(body))
	if err != nil {
		return ""
	}
	req.Header.Set("Content-Type", typ)
	res, err := x.door.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	if res.StatusCode == http.StatusInternalServerError && !slices.ContainsFunc(theirs,
		func(s string) bool { return bytes.Contains(text, []byte(s)) }) {
		return string(text)
	}
	return ""
}

// say makes a request and returns its answer.
func (x *target) say(t *testing.T, method, path, typ, body string) (code int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, x.host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", typ)
	res, err := x.door.Do(req)
	if err != nil {
		t.Fatalf("%s %s (%s): %v", method, path, typ, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s (%s): %v", method, path, typ, err)
	}
	return res.StatusCode, string(answer)
}

// served waits until a kind is there.
func (x *target) served(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if code, _ := x.say(t, http.MethodGet, path, "", ""); code == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s is not served", path)
}

func (x *target) check(t *testing.T, method, path, typ string, body []byte) {
	t.Helper()
	if x.err != nil {
		t.Fatal(x.err)
	}
	if wrong := x.ask(method, path, typ, body); wrong != "" {
		t.Errorf("%s %s (%s): %s", method, path, typ, wrong)
	}
}

// Bodies of any kind are decoded, or refused.
func FuzzBody(f *testing.F) {
	for i, b := range bodies {
		f.Add(uint8(i), i%2 == 0, []byte(b))
	}
	f.Fuzz(func(t *testing.T, typ uint8, other bool, body []byte) {
		fuzzed().check(t, http.MethodPost, fuzzPaths[other]+"?dryRun=All&fieldValidation=Strict", types[int(typ)%4], body)
	})
}

// Patches of any kind are applied, or refused.
func FuzzPatch(f *testing.F) {
	for i, b := range bodies {
		f.Add(uint8(i), i%2 == 0, []byte(b))
	}
	f.Fuzz(func(t *testing.T, typ uint8, other bool, body []byte) {
		fuzzed().check(t, http.MethodPatch, fuzzPaths[other]+"/victim?dryRun=All&fieldManager=f", types[4+int(typ)%4], body)
	})
}

// Selectors and tokens of lists are read, or refused.
func FuzzList(f *testing.F) {
	for i, v := range values {
		f.Add(v, values[len(values)-1-i], v)
	}
	f.Fuzz(func(t *testing.T, labels, fields, token string) {
		q := url.Values{"labelSelector": {labels}, "fieldSelector": {fields}, "limit": {"1"}}
		if token != "" {
			q.Set("continue", token)
		}
		fuzzed().check(t, http.MethodGet, fuzzPaths[false]+"?"+q.Encode(), "", nil)
	})
}

// Rules of any kind are compiled, or refused.
func FuzzRule(f *testing.F) {
	for _, r := range []string{"self.x > 1", "self.x.y(z", "has(self.x) && self.x in [1,2]", "self.all(k, self[k] == oldSelf[k])", "",
		"\x00", "'a'.matches('(((((')",
		"[1].map(x, [1].map(y, x*y))", "self.x.format('%s')", "optional.of(1).orValue(2)", "ip('1.2.3.4').isLoopback()",
		"quantity('1Ki').isGreaterThan(quantity('1'))"} {
		f.Add(r, "self.x == 1")
	}
	f.Fuzz(func(t *testing.T, rule, message string) {
		crd := map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "things.example.com"},
			"spec": map[string]any{"group": "example.com", "names": map[string]any{"plural": "things", "kind": "Thing"}, "scope": "Namespaced",
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{
						"type": "object", "x-kubernetes-validations": []any{map[string]any{"rule": rule, "messageExpression": message}},
						"properties": map[string]any{"x": map[string]any{"type": "integer"}}}}}}}}
		body, err := json.Marshal(crd)
		if err != nil {
			t.Skip()
		}
		fuzzed().check(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", "application/json", body)
	})
}
