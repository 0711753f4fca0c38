package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

var (
	requests = flag.Int("requests", 3000, "how many malformed requests are sent")
	seed     = flag.Uint64("seed", 1, "of the malformed requests")
)

// Pieces that requests are made of: what is right, what is nearly so, and what is not.
var (
	paths = []string{"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/victim",
		"/api/v1/namespaces/default/pods",
		"/apis/apps/v1/namespaces/default/deployments", "/apis/apps/v1/namespaces/default/deployments/victim/scale",
		"/api/v1/namespaces/default/services",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/nodes",
		"/api/v1/namespaces",
		"/apis/example.com/v1/namespaces/default/things", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"/api/v1/namespaces/default/secrets",
		"/api/v1/namespaces/default/pods/victim/binding", "/api/v1/namespaces/default/pods/victim/eviction",
		"/api/v1/namespaces/default/serviceaccounts/default/token",
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/batch/v1/namespaces/default/cronjobs",
		"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
		"/api/v1/namespaces/default/pods/victim/log", "/api/v1/namespaces/default/pods/victim/exec", "/openapi/v3", "/openapi/v2",
		"/apis", "/version", "/kloop/join", "/kloop/members/x"}
	methods = []string{"GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"}
	types   = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor",
		"application/json-patch+json",
		"application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain", "",
		"application/json; charset=\xff", "a/b;q"}
	accepts = []string{"application/json", "application/vnd.kubernetes.protobuf", "application/json;as=Table;g=meta.k8s.io;v=v1",
		"application/json;as=Nothing;g=x;v=y",
		"*/*", "", ";;;", "application/yaml", "text/html", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
	bodies = []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"victim"},"data":{"k":"v"}}`,
		`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"victim"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},` +
			`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"victim"},` +
			`"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1e99"}}}]}}`,
		`[{"op":"replace","path":"/data/k","value":1},{"op":"remove","path":"/metadata/x/-"}]`,
		`{"metadata":{"labels":{"$patch":"replace","x":null}},` +
			`"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"$patch":"delete","name":"c"}]}}`, "", "null", "[]", "0", `"x"`,
		"{", "\x00\x01", "k8s\x00\x0a\x04\x0a\x02v1", "k8s\x00", "---\na: &a [*a]\n", "a: b: c", strings.Repeat("[", 20000),
		`{"metadata":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5001),
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},` +
			`"spec":{"group":"example.com","names":{"plural":"things","kind":"Thing"},` +
			`"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",` +
			`"x-kubernetes-validations":[{"rule":"self.x.y(z"}],"properties":{"x":{"type":"integer"}}}}}]}}`,
		`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},` +
			`"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["nothing"]}]},` +
			`"validations":[{"expression":"object.all(x, x"}]}}`}
	queries = []string{"labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch",
		"timeoutSeconds", "dryRun", "fieldManager",
		"force", "fieldValidation", "propagationPolicy", "gracePeriodSeconds", "sendInitialEvents", "allowWatchBookmarks", "pretty",
		"timeout", "follow", "tailLines", "command"}
	values = []string{"", "a", "a=b", "a in (", "!", ",,,", "=", "metadata.name=victim", "status.phase!=x,", "-1", "1",
		"99999999999999999999", "0", "true", "maybe", "All", "\x00", "%", "Strict",
		"NotOlderThan", "Exact", "Foreground", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0", "a notin (b,c),!d,e>5",
		"1ns", strings.Repeat("x", 5000)}
)

// theirs are the mistakes of callers that upstream answers with 500 too, and that clients may know by it.
var theirs = []string{"strconv.ParseUint: parsing", "target.name: Required value", "target.kind: Unsupported value",
	"resourceVersion should not be set on objects to be created", "has more than one PodDisruptionBudget"}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// spoil changes some bytes.
func spoil(r *rand.Rand, s string) string {
	b := []byte(s)
	for range r.IntN(4) {
		if len(b) == 0 {
			break
		}
		i := r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			b[i] = byte(r.IntN(256))
		case 1:
			b = append(b[:i:i], b[min(len(b), i+1+r.IntN(10)):]...)
		case 2:
			b = append(b[:i:i], append([]byte(pick(r, []string{"null", "{}", "[]", "-1", `"`, "\xff\xfe", "1e400", "true", "\\u0000"})),
				b[i:]...)...)
		default:
			b = append(b, b[i:]...)
		}
	}
	return string(b)
}

// request makes one. What the client itself would refuse is nil.
func request(ctx context.Context, r *rand.Rand, host string) *http.Request {
	path := pick(r, paths)
	if r.IntN(4) == 0 {
		path = spoil(r, path)
	}
	q := url.Values{}
	for range r.IntN(4) {
		q.Set(pick(r, queries), spoil(r, pick(r, values)))
	}
	q.Set("timeoutSeconds", "1")
	body := spoil(r, pick(r, bodies))
	u := host + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
	if r.IntN(10) == 0 {
		u += "&" + strings.Map(func(c rune) rune {
			if c <= ' ' || c > '~' || c == '#' {
				return '%'
			}
			return c
		}, spoil(r, "x=%zz;limit=5&&=&"))
	}
	req, err := http.NewRequestWithContext(ctx, pick(r, methods), u, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil
	}
	for name, value := range map[string]string{"Content-Type": pick(r, types), "Accept": pick(r, accepts),
		"Impersonate-User":  pick(r, []string{"", "", "", "x"}),
		"Impersonate-Group": pick(r, []string{"", "", "", "y"}), "Content-Encoding": pick(r, []string{"", "", "gzip"})} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req
}

// heap is what is in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Requests that are wrong in all kinds of ways get an answer that says so: none is the server's fault, nothing panics and
// nothing is kept.
func TestMalformed(t *testing.T) {
	panics := &panicWatch{Handler: slog.DiscardHandler}
	log := slog.New(panics)
	old := slog.Default()
	slog.SetDefault(log)
	defer slog.SetDefault(old)
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), NoLoops: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	door, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	hammer(t, door, cfg.Host, *seed, min(*requests, 1000)) // fills caches
	before, goroutines := heap(), runtime.NumGoroutine()
	codes := hammer(t, door, cfg.Host, *seed+1, *requests)
	door.CloseIdleConnections()
	for end := time.Now().Add(patience); runtime.NumGoroutine() > goroutines+20 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines+20 {
		t.Errorf("%d goroutines became %d", goroutines, n)
	}
	after := heap()
	if grown := int64(after) - int64(before); grown > 64<<20 {
		t.Errorf("%d MiB in use became %d", before>>20, after>>20)
	}
	if text := panics.first(); text != "" {
		t.Errorf("a request panicked: %s", text)
	}
	t.Logf("answers %v; %d KiB in use became %d", codes, before>>10, after>>10)
}

// hammer sends n requests and counts the answers by code.
func hammer(t *testing.T, door *http.Client, host string, seed uint64, n int) map[int]int {
	t.Helper()
	codes := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	const clients = 8
	for i := range clients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range n / clients {
				code, err := send(t.Context(), r, door, host)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return codes
}

// send makes one request. An answer of 500 is an error, and one that is an error but says nothing.
func send(ctx context.Context, r *rand.Rand, door *http.Client, host string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req := request(ctx, r, host)
	if req == nil {
		return 0, nil
	}
	what := fmt.Sprintf("%s %.300s, %q", req.Method, req.URL, req.Header)
	res, err := door.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("%s: no answer", what)
		}
		return 0, nil // the client found it too strange
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil && ctx.Err() != nil {
		return 0, fmt.Errorf("%s: no end", what)
	}
	if res.StatusCode == http.StatusInternalServerError && !slices.ContainsFunc(theirs,
		func(text string) bool { return bytes.Contains(body, []byte(text)) }) {
		return res.StatusCode, fmt.Errorf("%s: %.500s", what, body)
	}
	st := &metav1.Status{}
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") == "application/json" && req.Method != http.MethodHead &&
		(json.Unmarshal(body, st) != nil || st.Message == "" && st.Kind == "Status") {
		return res.StatusCode, fmt.Errorf("%s: %d without a message: %.300q", what, res.StatusCode, body)
	}
	return res.StatusCode, nil
}

// panicWatch remembers what was logged of panics.
type panicWatch struct {
	slog.Handler
	mu   sync.Mutex
	text string
}

func (p *panicWatch) Enabled(context.Context, slog.Level) bool { return true }
func (p *panicWatch) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *panicWatch) WithGroup(string) slog.Handler            { return p }

func (p *panicWatch) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, "panic") {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == "" {
		p.text = r.Message
		r.Attrs(func(a slog.Attr) bool { p.text += " " + a.String(); return true })
	}
	return nil
}

func (p *panicWatch) first() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}
