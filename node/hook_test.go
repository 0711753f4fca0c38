package node

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A lifecycle hook by HTTP asks as a probe does, and has done its work when its server has answered, whatever the status.
func TestHooksByHTTP(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		agent, _, _ := strings.Cut(r.UserAgent(), "/")
		asked = append(asked, strings.Join([]string{agent, r.Host, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization")}, "|"))
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	web, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer web.Close()
	defer secure.Close()
	u, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	tls := secure.Listener.Addr().(*net.TCPAddr).Port
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	secret := []corev1.HTTPHeader{{Name: "Host", Value: "my.host"}, {Name: "Authorization", Value: "Bearer x"}}
	live(t, func(r *rig) {
		for _, c := range []struct {
			name string
			get  corev1.HTTPGetAction
			want string // what the server hears; "": nothing
			fine bool
		}{
			{"plain", corev1.HTTPGetAction{Path: "/a?b=c", HTTPHeaders: secret}, "kube-lifecycle|my.host|/a|b=c|Bearer x", true},
			{"named-port", corev1.HTTPGetAction{Path: "ok", Port: intstr.FromString("web")}, "kube-lifecycle|" + u.Host + "|/ok||", true},
			{"broken", corev1.HTTPGetAction{Path: "/broken"}, "kube-lifecycle|" + u.Host + "|/broken||", true},
			{"away", corev1.HTTPGetAction{Path: "/away"}, "kube-lifecycle|" + u.Host + "|/away||", true},
			{"no-tls", corev1.HTTPGetAction{Path: "/s", Scheme: corev1.URISchemeHTTPS, HTTPHeaders: secret}, "kube-lifecycle|my.host|/s||", true},
			{"tls", corev1.HTTPGetAction{Path: "/t", Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt(tls), HTTPHeaders: secret},
				"kube-lifecycle|my.host|/t||Bearer x", true},
			{"no-such-port", corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("none")}, "", false},
		} {
			g := c.get
			g.Host = u.Hostname()
			if g.Port == (intstr.IntOrString{}) {
				g.Port = intstr.FromInt(port)
			}
			mu.Lock()
			asked = nil
			mu.Unlock()
			spec := &corev1.Container{Name: "a", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}
			pod := testPod(corev1.RestartPolicyAlways, "", "a")
			err := r.agent.stop.hook(r.t.Context(), pod, spec, &corev1.LifecycleHandler{HTTPGet: &g}, "x", nil)
			mu.Lock()
			if got := strings.Join(asked, " "); (err == nil) != c.fine || got != c.want {
				t.Errorf("%s: %v, the server heard %q, want %q", c.name, err, got, c.want)
			}
			mu.Unlock()
		}
	})
}

// Events do not tell what a failed hook said. A container whose post-start hook failed ends as any other: after its pre-stop hook.
func TestFailedHooks(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.mu.Lock()
		r.rt.exec = func(*cri.ExecSyncRequest) *cri.ExecSyncResponse {
			return &cri.ExecSyncResponse{ExitCode: 1, Stderr: []byte("password: 1234")}
		}
		r.rt.mu.Unlock()
		fails := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: fails, PreStop: fails}
		}, "a")
		told := map[string]string{"FailedPostStartHook": "PostStartHook failed", "FailedPreStopHook": "PreStopHook failed",
			"Killing": "FailedPostStartHook"}
		r.until("all is told", func() bool {
			found := 0
			for _, e := range resource.List(r.Read(), kinds.Events, "d") {
				if strings.Contains(e.Message, "1234") {
					t.Fatalf("%s: %s", e.Reason, e.Message)
				}
				if want, ok := told[e.Reason]; ok && e.Message == want {
					found++
				}
			}
			return found == len(told)
		})
	})
}

// Sidecars end after the main containers, and those after them; their pre-stop hooks run with the others'.
func TestSidecarsEndLast(t *testing.T) {
	simulate(t, func(r *rig) {
		always := corev1.ContainerRestartPolicyAlways
		pauses := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}}}
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = new(int64(60))
			for _, name := range []string{"first", "second"} {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, Image: "img", RestartPolicy: &always,
					ImagePullPolicy: corev1.PullIfNotPresent, Lifecycle: pauses})
			}
			p.Spec.Containers[0].Lifecycle = pauses
		}, "main")
		r.reaches("p", corev1.PodRunning)
		var mu sync.Mutex
		var order []string
		began := time.Now()
		r.rt.mu.Lock()
		r.rt.stop = func(_ context.Context, id string) {
			r.rt.mu.Lock()
			name := r.rt.list[id].Metadata.Name
			r.rt.mu.Unlock()
			time.Sleep(5 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name+" "+time.Since(began).Round(time.Second).String())
		}
		r.rt.mu.Unlock()
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
		if got := strings.Join(order, ", "); got != "main 15s, second 20s, first 25s" {
			t.Errorf("they ended: %s", got)
		}
	})
}

// A hook that sleeps takes its time, and no more than is left of the grace, also when somebody shortens that. A container that has ended
// is not waited for.
func TestSleepingHooks(t *testing.T) {
	for _, c := range []struct {
		name         string
		sleep, grace int64
		sooner       int64 // the grace of a second deletion, 10 s later; 0: none
		ends         bool  // the container ended by itself
		want         string
	}{
		{"in time", 50, 100, 0, false, "50s"}, {"too long", 50, 30, 0, false, "30s"}, {"zero", 0, 30, 0, false, "0s"},
		{"shortened", 50, 100, 5, false, "11s"}, // its five seconds are over: the least that there is
		{"ended", 50, 100, 0, true, "0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.pod("p", func(p *corev1.Pod) {
					p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = never, new(int64(100))
					p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: c.sleep}}}
				}, "a")
				r.reaches("p", corev1.PodRunning)
				if c.ends {
					r.rt.exit("a", 0)
					r.reaches("p", corev1.PodSucceeded)
				}
				remove := func(grace *int64) {
					if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", &metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				remove(&c.grace)
				if c.sooner > 0 {
					r.rests(10 * time.Second)
					remove(&c.sooner)
				}
				r.until("it is gone", func() bool { return r.get("p") == nil })
				if took := time.Since(began).Truncate(time.Second).String(); took != c.want {
					t.Errorf("it took %s, want %s", took, c.want)
				}
			})
		})
	}
}
