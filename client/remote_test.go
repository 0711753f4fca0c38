package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// A stream is what the server answers to one watch: a status, or events.
type stream struct {
	code   int // 0: 200
	events []string
	stay   bool // the watch goes on without events
}

// An apiServer answers watches one after the other, and tells what was asked.
type apiServer struct {
	*httptest.Server
	asked chan url.Values
}

func serve(t *testing.T, streams ...stream) *apiServer {
	t.Helper()
	next := make(chan stream, len(streams))
	for _, s := range streams {
		next <- s
	}
	a := &apiServer{asked: make(chan url.Values, len(streams)+1)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var s stream
		select {
		case s = <-next:
		default:
			s = stream{stay: true}
		}
		w.Header().Set("Content-Type", "application/json")
		if s.code != 0 {
			w.WriteHeader(s.code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":%d}`, s.code)
		}
		for _, e := range s.events {
			fmt.Fprintln(w, e)
		}
		w.(http.Flusher).Flush()
		select {
		case a.asked <- r.URL.Query():
		default:
		}
		if s.stay {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func said(typ, name string, rev int) string {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", ResourceVersion: fmt.Sprint(rev)}}
	if typ == "END" { // of the initial events
		typ, cm.Annotations = "BOOKMARK", map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	obj, err := json.Marshal(cm)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"type":%q,"object":%s}`, typ, obj)
}

const gone = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`

const broken = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}}`

// listed is a page of a list with one object.
func listed(name string, rev, of int, next string) string {
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},
		"items":[{"metadata":{"name":%q,"namespace":"ns","resourceVersion":"%d"}}]}`, of, next, name, rev)
}

// A copy stays true whatever becomes of its watches: it goes on where they ended, or begins anew when that place is gone.
func TestRemoteFollows(t *testing.T) {
	initial := stream{events: []string{said("ADDED", "a", 3), said("ADDED", "b", 4), said("END", "", 5)}}
	anew := stream{events: []string{said("ADDED", "b", 4), said("ADDED", "c", 20), said("END", "", 21)}, stay: true}
	tests := map[string]struct {
		streams []stream
		asked   []string // resourceVersion of each watch; "": from the start
		want    string   // what is there in the end
	}{
		"ends": {[]stream{initial, {events: []string{said("MODIFIED", "a", 6), said("DELETED", "b", 7)}},
			{events: []string{said("ADDED", "c", 8)}, stay: true}},
			[]string{"", "5", "7"}, "a@6 c@8 "},
		"bookmark moves on": {[]stream{initial, {events: []string{said("BOOKMARK", "", 12)}},
			{events: []string{said("ADDED", "c", 13)}, stay: true}}, []string{"", "5", "12"}, "a@3 b@4 c@13 "},
		"gone before":        {[]stream{initial, {code: 410}, anew}, []string{"", "5", ""}, "b@4 c@20 "},
		"gone in the stream": {[]stream{initial, {events: []string{said("ADDED", "d", 6), gone}}, anew}, []string{"", "5", ""}, "b@4 c@20 "},
		"server fails": {[]stream{initial, {code: 503}, {code: 500}, {events: []string{said("ADDED", "c", 8)}, stay: true}},
			[]string{"", "5", "5", "5"}, "a@3 b@4 c@8 "},
		"nonsense": {[]stream{initial, {events: []string{said("ADDED", "d", 6), `{"type":`}},
			{events: []string{said("ADDED", "c", 8)}, stay: true}}, []string{"", "5", "6"}, "a@3 b@4 c@8 d@6 "},
		"cut in the initial events": {[]stream{{events: []string{said("ADDED", "x", 1)}}, initial,
			{events: []string{said("ADDED", "c", 8)}, stay: true}},
			[]string{"", "", "5"}, "a@3 b@4 c@8 "},
		"no initial events": {[]stream{{code: 422}, {events: []string{listed("a", 3, 5, "more")}}, {events: []string{listed("b", 4, 5, "")}},
			{events: []string{said("ADDED", "c", 8)}, stay: true}}, []string{"", "", "", "5"}, "a@3 b@4 c@8 "},
		"no initial events after all": {[]stream{{events: []string{broken}}, {events: []string{listed("a", 3, 5, "more")}}, {code: 410},
			{events: []string{listed("b", 4, 9, "")}}, {code: 410}, {events: []string{listed("c", 11, 12, "")}, stay: false}, {stay: true}},
			[]string{"", "", "", "", "9", "", "12"}, "c@11 "},
		"told twice": {[]stream{initial, {events: []string{said("MODIFIED", "a", 6), said("MODIFIED", "a", 6), said("MODIFIED", "a", 5)},
			stay: true}}, []string{"", "5"}, "a@6 b@4 "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, tt.streams...)
			r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test", client.Source{Kind: kinds.ConfigMaps})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			done := make(chan error, 1)
			feed := r.Feed(kinds.ConfigMaps)
			go func() { done <- r.Run(ctx, func() {}) }()
			for i, want := range tt.asked {
				if got := (<-a.asked).Get("resourceVersion"); got != want {
					t.Errorf("watch %d begins at %q, want %q", i, got, want)
				}
			}
			for text := there(r); text != tt.want; text = there(r) {
				if _, err := feed.Next(ctx); err != nil {
					t.Fatalf("there is %s, want %s", text, tt.want)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// there lists what the copy holds.
func there(r *client.Remote) (text string) {
	for obj := range r.Read().Each(kinds.ConfigMaps, "ns") {
		text += obj.GetName() + "@" + obj.GetResourceVersion() + " "
	}
	return text
}

func TestMain(m *testing.M) {
	client.AskOften(time.Millisecond)
	m.Run()
}

// A kind that the server does not serve keeps nobody waiting; it is there as soon as the server serves it.
func TestRemoteWithoutAKind(t *testing.T) {
	a := serve(t, stream{code: 404}, stream{code: 404}, stream{events: []string{said("ADDED", "a", 3), said("END", "", 5)}}, stream{code: 404},
		stream{events: []string{said("ADDED", "b", 7), said("END", "", 8)}, stay: true})
	set := kinds.NewSet()
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, set, "test", client.Source{Kind: kinds.ConfigMaps})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	feed, ready, done := r.Feed(kinds.ConfigMaps), make(chan bool, 1), make(chan error, 1)
	served := func() bool { _, ok := set.GR(kinds.ConfigMaps.Info().GR()); return ok }
	go func() { done <- r.Run(ctx, func() { ready <- served() }) }()
	<-ready
	for there(r) != "b@7 " {
		if _, err := feed.Next(ctx); err != nil {
			t.Fatalf("there is %q", there(r))
		}
	}
	for !served() { // it is known a moment after its objects are
		runtime.Gosched()
	}
	if trouble := r.Trouble(); trouble != "" {
		t.Errorf("a kind that is served is in trouble: %s", trouble)
	}
	cancel()
	<-done
}

// A scale is sent and read as one, whatever it is of.
func TestRemoteScale(t *testing.T) {
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in autoscalingv1.Scale
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Kind != "Scale" || in.Spec.Replicas != 3 || r.Method != http.MethodPut ||
			r.URL.Path != "/apis/apps/v1/namespaces/ns/deployments/web/scale" {
			t.Errorf("%s %s: %+v, %v", r.Method, r.URL, in, err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"resourceVersion":"8"}}`)
	}))
	defer a.Close()
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "kube-controller-manager/kloop")
	if err != nil {
		t.Fatal(err)
	}
	s := &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if got, err := r.Update(t.Context(), kinds.Deployments, s, "scale"); err != nil || got.GetResourceVersion() != "8" {
		t.Errorf("%+v, %v", got, err)
	}
}

// An apply patch names its field manager: a server refuses one that does not.
func TestRemoteApply(t *testing.T) {
	asked := make(chan *http.Request, 2)
	a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap"}`)
	}))
	defer a.Close()
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "kube-controller-manager/kloop")
	if err != nil {
		t.Fatal(err)
	}
	for c, manager := range map[*client.Remote]string{r: "kube-controller-manager", r.As("kube-scheduler/kloop"): "kube-scheduler"} {
		if _, err := c.Patch(t.Context(), kinds.ConfigMaps, "ns", "a", client.Patch{Type: types.ApplyPatchType, Data: []byte("{}"),
			Force: true}); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got.URL.Query().Get("fieldManager") != manager || got.UserAgent() != manager+"/kloop" ||
			got.URL.Query().Get("force") != "true" {
			t.Errorf("%s applies by %s as %s", manager, got.URL, got.UserAgent())
		}
	}
}

// A change that was told again, or is undone by a list, reaches a feed once and in order.
func TestRemoteFeed(t *testing.T) {
	a := serve(t, stream{events: []string{said("ADDED", "a", 3), said("END", "", 5)}},
		stream{events: []string{said("MODIFIED", "a", 6)}}, stream{code: 410},
		stream{events: []string{said("ADDED", "b", 20), said("END", "", 21)}, stay: true})
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test", client.Source{Kind: kinds.ConfigMaps})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	feed := r.Feed(kinds.ConfigMaps)
	if b, err := feed.Next(ctx); err != nil || !b.Reset {
		t.Fatalf("a feed begins with %+v, %v", b, err)
	}
	go r.Run(ctx, func() {})
	text := ""
	for n := 0; n < 4; {
		b, err := feed.Next(ctx)
		if err != nil {
			t.Fatalf("told %s, then %v", text, err)
		}
		if b.Reset {
			t.Fatal("a reset where the difference is known")
		}
		for _, c := range b.Changes {
			n++
			switch {
			case c.Old == nil:
				text += "+" + c.New.GetName() + " "
			case c.New == nil:
				text += "-" + c.Old.GetName() + " "
			default:
				text += "~" + c.New.GetName() + " "
			}
		}
	}
	if text != "+a ~a +b -a " && text != "+a ~a -a +b " {
		t.Errorf("told %s", text)
	}
}

// Errors of the server are those that any client of Kubernetes knows, whoever answers.
func TestRemoteErrors(t *testing.T) {
	answers := map[string]int{"": 502, "<html>": 503, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`: 404,
		`{"kind":"Status"}`: 500}
	for body, code := range answers {
		t.Run(body, func(t *testing.T) {
			a := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				fmt.Fprint(w, body)
			}))
			r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test")
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Get(t.Context(), kinds.ConfigMaps, "ns", "a")
			if st, ok := err.(interface{ Status() metav1.Status }); !ok || int(st.Status().Code) != code {
				t.Errorf("%d %q: %v", code, body, err)
			}
			a.Close()
		})
	}
}

// TestEndIsQuiet: the end of a watch with its context is nothing to warn of.
func TestEndIsQuiet(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	a := serve(t, stream{events: []string{said("ADDED", "a", 3), said("END", "", 5)}}, stream{stay: true})
	r, err := client.NewRemote(&rest.Config{Host: a.URL}, kinds.NewSet(), "test", client.Source{Kind: kinds.ConfigMaps})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, func() {}) }()
	<-a.asked
	<-a.asked // the second one tells of nothing
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Error(log.String())
	}
}
