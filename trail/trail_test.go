package trail

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/segments"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestBrief(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase, ready corev1.ConditionStatus, waits string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
		if waits != "" {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waits}}}}
		}
		return p
	}
	finalizers := func(list ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Finalizers: list}}
	}
	cron := func(generation int64, schedule string, suspend *bool) *batchv1.CronJob {
		return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Generation: generation},
			Spec: batchv1.CronJobSpec{Schedule: schedule, Suspend: suspend}}
	}
	widgets := &resource.Def[*unstructured.Unstructured]{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
		Plural: "widgets", JSON: true}
	widget := func(generation int64, size string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": generation},
			"spec": map[string]any{"size": size, "color": "red"}}}
	}
	news := func(_, now resource.Object) []string {
		if _, is := now.(*appsv1.Deployment); is {
			return []string{"told of"}
		}
		return nil
	}
	for _, tt := range []struct {
		name     string
		kind     resource.Kind
		old, now resource.Object
		want     string
	}{
		{"bound", kinds.Pods, pod("", "Pending", "False", ""), pod("n1", "Pending", "False", ""), "bound to n1"},
		{"running", kinds.Pods, pod("n1", "Pending", "False", ""), pod("n1", "Running", "True", ""), "Running, Ready"},
		{"container that crashes",
			kinds.Pods, pod("n1", "Running", "True", ""), pod("n1", "Running", "False", "CrashLoopBackOff"),
			"no longer Ready, c CrashLoopBackOff"},
		{"nothing to speak of", kinds.Pods, pod("n1", "Running", "True", ""), pod("n1", "Running", "True", ""), "status"},
		{"scaled and rolled", kinds.Deployments, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}},
			&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(5))}}, "replicas 3 → 5, told of"},
		{"finalizer gone", kinds.ConfigMaps, finalizers("a", "b"), finalizers("b"), "let go by a"},
		{"namespace terminates",
			kinds.Namespaces, &corev1.Namespace{}, &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}},
			"Terminating"},
		{"data", kinds.ConfigMaps, &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "1"}},
			&corev1.ConfigMap{Data: map[string]string{"a": "2", "c": "1"}}, "data.a, data.b, data.c"},
		{"secret's data by name alone", kinds.Secrets, &corev1.Secret{Data: map[string][]byte{"token": []byte("old")}},
			&corev1.Secret{Data: map[string][]byte{"token": []byte("new")}}, "data.token"},
		{"subjects",
			kinds.RoleBindings, &rbacv1.RoleBinding{}, &rbacv1.RoleBinding{Subjects: []rbacv1.Subject{{Name: "jane"}}}, "subjects"},
		{"spec of a cron job", kinds.CronJobs, cron(1, "@daily", nil), cron(2, "@hourly", new(true)),
			"spec.schedule: @daily → @hourly, spec.suspend: (none) → true"},
		{"selector",
			kinds.Services, &corev1.Service{}, &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}}},
			"spec.selector"},
		{"conditions",
			kinds.Services, &corev1.Service{}, &corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{}}}}, "status"},
		{"custom resource", widgets, widget(1, "small"), widget(2, "large"), "spec.size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := brief(tt.kind, tt.old, tt.now, news); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestCollected tells why garbage collection took an object: by whom it was owned. What others delete, and what was leaving already, has
// other reasons.
func TestCollected(t *testing.T) {
	owned := func(leaving bool, finalizers ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1-a", Namespace: "ns", Finalizers: finalizers,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1"}, {Kind: "Widget", Name: "w"}}}}
		if leaving {
			p.DeletionTimestamp = new(metav1.Now())
		}
		return p
	}
	collector, other := &Cause{Loop: "garbage-collector"}, &Cause{Loop: "replicaset"}
	const why = "belongs to replicaset/web-1, widget/w, gone or going"
	for _, tt := range []struct {
		name     string
		old, now *corev1.Pod
		cause    *Cause
		want     string
	}{
		{"collected", owned(false), nil, collector, "Deleted " + why},
		{"marked", owned(false), owned(true), collector, "Marked " + why},
		{"held by a finalizer", owned(false, "f"), owned(true, "f"), collector, "Marked " + why + "; held by f"},
		{"marked already", owned(true), nil, collector, "Deleted "},
		{"by somebody else", owned(false), nil, other, "Deleted "},
		{"without a cause", owned(false), nil, nil, "Deleted "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &Change{Kind: kinds.Pods, Old: tt.old, Cause: tt.cause}
			if tt.now != nil {
				c.New = tt.now
			}
			w, _ := c.write(nil)
			if got := map[string]string{Deleted: "Deleted", Marked: "Marked"}[w.Verb] + " " + w.What; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// web is the trail of a Deployment that was scaled: the request, what its loops made of it, and a pod of another one.
func web() []Write {
	at := func(rev int64, resource, name, verb, what string, cause *Cause) Write {
		w := Write{Ref: Ref{resource, "ns", name, rev}, At: noon.Add(time.Duration(rev) * time.Millisecond), Verb: verb, What: what,
			Cause: cause}
		if cause == nil {
			w.Manager, w.User = "kubectl", "jane"
		}
		return w
	}
	because := func(loop, resource, name string, rev int64) *Cause {
		return &Cause{Loop: loop, Key: Ref{resource, "ns", name, 0}, Woken: []Ref{{resource, "ns", name, rev - 100}, {resource, "ns",
			name, rev}}}
	}
	list := []Write{
		at(1, "deployments.apps", "web", Created, "1 replicas", nil),
		at(2, "pods", "other", Created, "", because("replicaset", "replicasets.apps", "other", 0)),
		at(3, "deployments.apps", "web", Changed, "replicas 1 → 3", nil),
		at(4, "replicasets.apps", "web-1", Changed, "replicas 1 → 3", because("deployment", "deployments.apps", "web", 3)),
		at(5, "pods", "web-1-a", Created, "", because("replicaset", "replicasets.apps", "web-1", 4)),
		at(6, "pods", "web-1-b", Created, "", because("replicaset", "replicasets.apps", "web-1", 4)),
		at(7, "pods", "web-1-a", Changed, "bound to n1", because("scheduler", "pods", "web-1-a", 5)),
		at(8, "pods", "web-1-b", Changed, "bound to n2", because("scheduler", "pods", "web-1-b", 6)),
		at(9, "deployments.apps", "web", Changed, "status", because("deployment", "replicasets.apps", "web-1", 4)),
		at(10, "pods", "other", Changed, "Running", because("node", "pods", "other", 2)),
		at(11, "pods", "web-1-a", Marked, "", nil),
		at(12, "pods", "web-1-a", Deleted, "", because("node", "pods", "web-1-a", 11)),
	}
	return list
}

func draw(s *Step, indent string) string {
	text := fmt.Sprintf("%s%s %s %s×%d %s\n", indent, s.By(), s.Verb, s.Resource, s.Count, alike(s.What))
	for _, b := range s.Below {
		text += draw(b, indent+" ")
	}
	return text
}

func TestCascade(t *testing.T) {
	g := NewGraph(web())
	object := Ref{Resource: "deployments.apps", Namespace: "ns", Name: "web"}
	start, ok := g.Start(object)
	if !ok || start.Rev != 3 {
		t.Fatalf("begins at %d", start.Rev)
	}
	want := `kubectl change deployments.apps×1 replicas 1 → 3
 deployment change replicasets.apps×1 replicas 1 → 3
  replicaset create pods×2 
   scheduler change pods×2 bound
`
	if got := draw(g.Cascade(start), ""); got != want {
		t.Errorf("got\n%s", got)
	}
	revs := func(list []Write) (text string) {
		for _, w := range list {
			text += fmt.Sprint(w.Rev, " ")
		}
		return text
	}
	pod := Ref{Resource: "pods", Namespace: "ns", Name: "web-1-a"}
	if got := revs(g.Around(pod)); got != "3 4 5 7 11 12 " {
		t.Errorf("around the pod: %s", got)
	}
	if got := revs(g.Around(object)); got != "1 3 4 5 6 7 8 9 " {
		t.Errorf("around the deployment: %s", got)
	}
	own := g.Of(pod)
	if got := revs(g.Because(own[0])); got != "4 3 " {
		t.Errorf("the pod was made because of %s", got)
	}
	if last := own[len(own)-1]; last.Verb != Deleted || revs(g.Because(last)) != "11 " {
		t.Errorf("it was deleted by %s because of %s", last.By(), revs(g.Because(last)))
	}
	if _, ok := g.Start(Ref{Resource: "pods", Namespace: "ns", Name: "none"}); ok {
		t.Error("something is known of a pod that never was")
	}
}

func note(l *Log, name string, rev int64) {
	l.Note(&Change{Kind: kinds.ConfigMaps, New: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}},
		Rev: rev, User: "jane"})
}

func everything(*Write) bool { return true }

func TestLogOutlivesItsMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	cfg := Config{Dir: dir, Recent: 10, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}
	l := New(cfg)
	for i := range 25 {
		note(l, fmt.Sprint("m", i), int64(i+1))
	}
	l.Note(&Change{Kind: kinds.Leases, New: nil, Old: nil}) // heartbeats are not looked at
	if got := l.Recent(everything); len(got) != 10 || got[0].Name != "m15" || got[9].Name != "m24" {
		t.Errorf("in memory: %v", got)
	}
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*Log{"this one": l, "the next process": New(cfg)} {
		t.Run(name, func(t *testing.T) {
			got, err := l.All(noon.Add(-time.Hour), 100, everything)
			if err != nil || len(got) != 25 || got[0].Name != "m0" || got[24].Name != "m24" || got[24].User != "jane" {
				t.Errorf("%s: %d writes, %v", name, len(got), err)
			}
			if got, _ := l.All(noon.Add(time.Hour), 100, everything); len(got) != 0 {
				t.Errorf("%s: %d writes of the future", name, len(got))
			}
			if got, _ := l.All(noon, 3, everything); len(got) != 3 || got[2].Name != "m24" {
				t.Errorf("%s: the newest three: %v", name, got)
			}
		})
	}
}

func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := New(Config{Dir: dir, MaxDisk: 64 << 10, Recent: 1, Log: slog.New(slog.DiscardHandler)})
	for i := range 5000 {
		note(l, fmt.Sprint("m", i), int64(i+1))
		if i%50 == 49 {
			if err := l.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var size int64
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, n := range names {
		info, err := os.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if err != nil || len(names) > segments.Parts+1 || size > 64<<10+chunk {
		t.Errorf("%d files of %d bytes, %v", len(names), size, err)
	}
	if got, err := l.All(time.Time{}, 1<<20, everything); err != nil || len(got) < 100 || got[len(got)-1].Name != "m4999" {
		t.Errorf("%d writes are left, %v", len(got), err)
	}
}

func TestExport(t *testing.T) {
	var body []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) }))
	defer collector.Close()
	e := &Exporter{URL: collector.URL}
	if err := e.send(context.Background(), web()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	by := map[string]span{}
	for _, s := range got.ResourceSpans[0].ScopeSpans[0].Spans {
		by[s.SpanID] = s
	}
	root, bind := by[spanID(3)], by[spanID(8)]
	if len(by) != 12 || root.Parent != "" || bind.Parent != spanID(6) || bind.TraceID != root.TraceID || len(root.TraceID) != 32 ||
		by[spanID(1)].TraceID == root.TraceID {
		t.Errorf("spans: %+v, %+v", root, bind)
	}
	collector.Config.Handler = http.NotFoundHandler()
	if err := e.send(context.Background(), web()[:1]); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a collector that refuses: %v", err)
	}
}

func TestPage(t *testing.T) {
	l := New(Config{Log: slog.New(slog.DiscardHandler)})
	srv := httptest.NewServer(l)
	defer srv.Close()
	note(l, "a", 1)
	note(l, "b", 2)
	res, err := http.Get(srv.URL + "?resource=configmaps&namespace=ns&name=a&follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	dec := json.NewDecoder(res.Body)
	for _, want := range []int64{1, 4, 3} {
		var w Write
		if err := dec.Decode(&w); err != nil || w.Rev != want || w.Name != "a" {
			t.Fatalf("%+v, %v; want revision %d of a", w, err, want)
		}
		switch want {
		case 1:
			note(l, "a", 4)
		case 4:
			note(l, "a", 3) // its writer was slower to say so
		}
	}
	for _, bad := range []string{"?resource=configmaps", "?resource=configmaps&name=a&since=soon"} {
		if res, err := http.Get(srv.URL + bad); err != nil || res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v", bad, res, err)
		}
	}
}

// What other servers have written is told beside the own, where an object is asked for; what is not known of them is a warning.
func TestOthers(t *testing.T) {
	l, elsewhere := New(Config{Log: slog.New(slog.DiscardHandler)}), New(Config{Log: slog.New(slog.DiscardHandler)})
	note(l, "a", 2)
	note(elsewhere, "a", 1)
	note(elsewhere, "b", 3)
	how := Telling{Others: func(_ context.Context, since time.Time) ([]Write, []string) {
		list, err := elsewhere.All(since, MostTold, everything)
		if err != nil {
			t.Error(err)
		}
		return list, []string{`the server "c" is away`}
	}}
	for q, want := range map[string]string{"resource=configmaps&namespace=ns&name=a": "1 2", "all=true": "2"} {
		t.Run(want, func(t *testing.T) {
			w := httptest.NewRecorder()
			l.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+q, nil), how)
			var revs []string
			for dec := json.NewDecoder(w.Body); dec.More(); {
				var one Write
				if err := dec.Decode(&one); err != nil {
					t.Fatal(err)
				}
				revs = append(revs, fmt.Sprint(one.Rev))
			}
			if got := strings.Join(revs, " "); got != want {
				t.Errorf("revisions %s, want %s", got, want)
			}
			if warned := w.Header().Get("Warning"); (warned == `299 - "the server \"c\" is away"`) != (len(revs) == 2) {
				t.Errorf("warning %s", warned)
			}
		})
	}
}

// Who follows hears of the other servers, too: what one of them tells late comes before what followed from it here, each once.
func TestFollowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, elsewhere := New(Config{Log: slog.New(slog.DiscardHandler)}), New(Config{Log: slog.New(slog.DiscardHandler)})
		note(l, "a", 1)
		how := Telling{Others: func(_ context.Context, since time.Time) ([]Write, []string) {
			list, err := elsewhere.All(since, MostTold, everything)
			if err != nil {
				t.Error(err)
			}
			return list, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		w, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			l.Serve(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?resource=configmaps&namespace=ns&name=a&follow=true", nil), how)
			close(ended)
		}()
		time.Sleep(askEvery / 2)
		follows := func(name string, rev, from int64) {
			l.Note(&Change{Kind: kinds.ConfigMaps, New: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}, Rev: rev,
				User: "loop", Cause: &Cause{Woken: []Ref{{Rev: from}}}})
		}
		follows("made", 4, 3)
		follows("by-made", 5, 4)
		follows("by-other", 6, 2)
		note(elsewhere, "other", 2)
		time.Sleep(askEvery)
		note(elsewhere, "a", 3)
		time.Sleep(2 * late)
		stop()
		<-ended
		var revs []int64
		for dec := json.NewDecoder(w.Body); dec.More(); {
			var one Write
			if err := dec.Decode(&one); err != nil {
				t.Fatal(err)
			}
			revs = append(revs, one.Rev)
		}
		if want := []int64{1, 3, 4, 5}; !slices.Equal(revs, want) {
			t.Errorf("revisions %v, want %v", revs, want)
		}
	})
}

// What waits for writes that nobody tells of is forgotten, in time or number.
func TestFollowForgets(t *testing.T) {
	f := &follower{teller: &teller{}, object: Ref{Name: "a"}, young: orphans{}}
	for i := range int64(100) {
		f.take([]Write{{Ref: Ref{Rev: 1000 + i}, Cause: &Cause{Woken: []Ref{{Rev: i + 1}}}}})
		if f.turn(noon, 10); len(f.young)+len(f.old) > 22 {
			t.Fatalf("%d and %d wait after %d", len(f.young), len(f.old), i)
		}
	}
	f.turn(noon.Add(2*late), 10)
	f.turn(noon.Add(4*late), 10)
	if len(f.young)+len(f.old) > 0 {
		t.Errorf("%d and %d wait", len(f.young), len(f.old))
	}
}

// TestSeats answers a few at a time, whoever asks: each may read all that is kept. Who gives up while it waits is let go.
func TestSeats(t *testing.T) {
	l := New(Config{Log: slog.New(slog.DiscardHandler)})
	note(l, "a", 1)
	ctx, stop := context.WithCancel(t.Context())
	ask := func() string {
		w := httptest.NewRecorder()
		l.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?resource=configmaps&namespace=ns&name=a", nil))
		return w.Body.String()
	}
	if ask() == "" {
		t.Fatal("nothing is told")
	}
	for range readers {
		l.seats <- struct{}{}
	}
	time.AfterFunc(time.Millisecond, stop)
	if got := ask(); got != "" {
		t.Errorf("it was not waited for a seat: %s", got)
	}
}

// TestAsks has a few at a time ask other servers, each of which may tell of all that it keeps, and lets a place go to the next one before
// a client is told what comes.
func TestAsks(t *testing.T) {
	l := New(Config{Log: slog.New(slog.DiscardHandler)})
	note(l, "a", 1)
	asked := 0
	how := Telling{Others: func(context.Context, time.Time) ([]Write, []string) { asked++; return nil, nil }}
	ask := func(ctx context.Context, more string) string {
		w := httptest.NewRecorder()
		l.Serve(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?resource=configmaps&namespace=ns&name=a"+more, nil), how)
		return w.Body.String()
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { ask(ctx, "&follow=true"); close(ended) }()
	for range readers {
		l.asks <- struct{}{} // the one that follows holds none
	}
	stop()
	<-ended
	asked = 0
	if got := ask(ctx, ""); got != "" || asked != 0 {
		t.Errorf("it did not wait: asked %d times, told %s", asked, got)
	}
}

// A log that is restarted often keeps what it had, and a line that a crash tore costs that line alone.
func TestLogSurvivesCrashes(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * segments.Parts {
		l := New(Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		note(l, fmt.Sprint("m", i), int64(i+1))
		if err := l.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.disk.close(); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%d files, %v", len(names), err)
		}
		f, err := os.OpenFile(names[0], os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		torn := []string{`{"resource":"pods","na`, strings.Repeat("\x00", 4096), strings.Repeat("x", longestLine+10), ""}[i%4]
		if _, err := f.WriteString(torn); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := New(Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	got, err := l.All(time.Time{}, 1000, everything)
	if err != nil || len(got) != 3*segments.Parts || got[0].Name != "m0" {
		t.Errorf("%d writes of %d are left, %v", len(got), 3*segments.Parts, err)
	}
}

// A write that failed half way, as on a full disk, costs no later one.
func TestLogSurvivesAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := New(Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	note(l, "before", 1)
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.disk.file.WriteString(`{"resource":"pods","na`); err != nil {
		t.Fatal(err)
	}
	path := l.disk.file.Name()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	was := l.disk.file
	l.disk.file = full
	defer was.Close()
	note(l, "lost", 2)
	if err := l.flush(t.Context()); err == nil {
		t.Error("a full disk is no error")
	}
	note(l, "after", 3)
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if last := strings.LastIndex(string(text), "\n{"); err != nil || last < 0 || !strings.Contains(string(text[last:]), `"after"`) {
		t.Errorf("%v: %s", err, text)
	}
	if err := l.disk.close(); err != nil {
		t.Error(err)
	}
}

// A day of normal use fits: 100,000 writes, which are a write a second and some more, or five jobs a minute.
func TestLogHoldsADay(t *testing.T) {
	list := web()
	for i := range list {
		list[i].UID, list[i].User, list[i].OwnerKind, list[i].OwnerName = strings.Repeat("u", 36),
			"system:serviceaccount:kube-system:deployment-controller", "ReplicaSet", "web-6bf986c795"
	}
	d := &disk{dir: t.TempDir(), most: defaultMaxDisk}
	if err := d.write(list); err != nil {
		t.Fatal(err)
	}
	per := d.size / int64(len(list))
	t.Logf("%d bytes a write; %d writes fit", per, defaultMaxDisk*(segments.Parts-1)/segments.Parts/per)
	if room := defaultMaxDisk * (segments.Parts - 1) / segments.Parts / per; room < 100_000 {
		t.Errorf("only %d writes of %d bytes fit", room, per)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
}
