package survey_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/converge/gaps"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/survey"
)

// A crowd serves many pods in pages, and nothing else; once it says that a page is too old.
type crowd struct {
	pages [][]byte
	limit int

	mu     sync.Mutex
	stale  bool // the second page is refused once
	served int
}

// crowded has n pods, of which one in a hundred crashes.
func crowded(t testing.TB, n, limit int) *crowd {
	t.Helper()
	c := &crowd{limit: limit}
	for from := 0; from < n; from += limit {
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for i := from; i < min(from+limit, n); i++ {
			list.Items = append(list.Items, podOf(i))
		}
		if from+limit < n {
			list.Continue = strconv.Itoa(len(c.pages) + 1)
		}
		data, err := codec.MarshalProto(list)
		if err != nil {
			t.Fatal(err)
		}
		c.pages = append(c.pages, data)
	}
	return c
}

func podOf(i int) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%05d", i), Namespace: "default", UID: "u",
		Labels: map[string]string{"app": fmt.Sprint("app-", i%50)}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{` + strings.Repeat(`"f:conditions":{},`, 60) + `"f:x":{}}}`)}}}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", i%100),
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/app:v1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}}}}}
	if i%100 == 0 {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "main", RestartCount: 4,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}
	}
	return p
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/apis":
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[]}`)
	case r.URL.Path != "/api/v1/pods":
		http.Error(w, "404 page not found", http.StatusNotFound)
	case r.URL.Query().Get("limit") == "":
		http.Error(w, "all at once", http.StatusBadRequest)
	default:
		at, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		c.mu.Lock()
		old := c.stale && at == 1
		c.stale = c.stale && !old
		c.served++
		c.mu.Unlock()
		if old {
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
			return
		}
		w.Header().Set("Content-Type", codec.Protobuf)
		_, _ = w.Write(c.pages[at])
	}
}

func (c *crowd) read(t testing.TB) *survey.Survey {
	t.Helper()
	far := httptest.NewServer(c)
	defer far.Close()
	raw, err := client.Raw(&rest.Config{Host: far.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := survey.Read(t.Context(), raw, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A list comes page by page, each asked for once; when the server forgets in the middle where it was, it comes from the start, whole.
func TestPages(t *testing.T) {
	for _, stale := range []bool{false, true} {
		c := crowded(t, 950, 100)
		c.stale = stale
		s := c.read(t)
		if got := len(resource.List(s.World.Read, kinds.Pods, "")); got != 950 || len(s.Unseen) > 0 {
			t.Errorf("stale %v: %d of 950 pods, not seen: %v", stale, got, s.Unseen)
		}
		if want := 10 + map[bool]int{true: 2}[stale]; c.served != want {
			t.Errorf("stale %v: %d pages were asked for, not %d", stale, c.served, want)
		}
		if list, _ := gaps.List(s.World, ""); len(list) != 10 {
			t.Errorf("stale %v: %d gaps", stale, len(list))
		}
	}
}

// BenchmarkRead reads and explains 10,000 pods that are served from memory: the client's part of kubectl why.
func BenchmarkRead(b *testing.B) {
	c := crowded(b, 10_000, 2000)
	var peak uint64
	for b.Loop() {
		s := c.read(b)
		if list, _ := gaps.List(s.World, ""); len(list) != 100 {
			b.Fatalf("%d gaps", len(list))
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
	}
	b.ReportMetric(float64(peak>>20), "MiB-heap")
}
