package ui

import (
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
)

// TestPlan has kloop ui plan a drain, and plays its film; the cluster stays as it is.
func TestPlan(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: 3})
	s.deployment("web", 6, nil)
	s.deployment("db", 3, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = asks("6", "1Gi") })
	b.enter(s.link)
	b.route("#/o/deployments.apps/default/db")
	b.until(says("3 available"))
	b.route("#/o/deployments.apps/default/web")
	b.until(says("6 available"))
	b.route("#/plan")
	b.until("document.getElementById('change')")
	b.axe("plan, empty")
	ask := func(change string) {
		t.Helper()
		const enter = `(() => { document.getElementById("change").value = %q; document.querySelector("form.ask").requestSubmit(); })()`
		if err := b.eval(fmt.Sprintf(enter, change), nil); err != nil {
			t.Fatal(err)
		}
	}
	ask("kloop plan drain sim-1")
	b.until("document.querySelector('.verdict')?.textContent.includes('stuck')") // db has no room elsewhere
	b.until(atLeast(".charts figure", 1))
	seek := func(place int) {
		t.Helper()
		const move = `(() => { const r = document.querySelector("[type=range]"); r.value = %d; r.dispatchEvent(new Event("input")); })()`
		if err := b.eval(fmt.Sprintf(move, place), nil); err != nil {
			t.Fatal(err)
		}
	}
	b.until("document.querySelectorAll('.ticker li').length === 0")
	seek(100)
	b.until("document.querySelector('.ticker').innerText.includes('leaves sim-1')")
	seek(0)
	if err := b.eval("document.querySelector('[aria-pressed]').click()", nil); err != nil { // Play
		t.Fatal(err)
	}
	b.until("document.querySelector('[type=range]').value === '1000' && " + says("2 of 3"))
	seek(300)
	for _, dark := range []bool{false, true} {
		b.dark(dark)
		b.axe("plan")
		b.shoot("plan" + map[bool]string{true: "-dark"}[dark])
	}
	if n, err := s.cs.CoreV1().Nodes().Get(t.Context(), "sim-1", metav1.GetOptions{}); err != nil || n.Spec.Unschedulable {
		t.Errorf("the plan changed the cluster: %v", err)
	}
	ask("drain")
	b.until(says("say what is to change"))
	b.quiet()
}

// TestForeign shows a cluster that does not explain itself, as any Kubernetes: what its objects tell, and what can't be known.
func TestForeign(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: 1, NoConvergence: true})
	s.deployment("large", 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = asks("100", "1Gi") })
	b.enter(s.link)
	b.until("document.querySelector('.gap b')?.textContent === 'deployment/large'")
	b.axe("foreign board")
	b.route("#/loops")
	b.until(says("does not tell of its loops") + "&& document.querySelector('[data-loop=scheduler]')")
	b.route("#/o/deployments.apps/default/large")
	b.until(atLeast(".tree li", 3) + "&&" + says("no trail of who changed what") + "&&" + atLeast(".family li", 2))
	b.axe("foreign object")
	b.quiet()
}

// TestEvents shows what was said of a pod, and its log's error where there is none to read.
func TestEvents(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: 1})
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1"}, {Name: "side", Image: "side:1"}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: spec}
	if _, err := s.cs.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.enter(s.link)
	b.route("#/o/pods/default/one")
	b.until("[...document.querySelectorAll('tbody td')].some((d) => d.textContent === 'Scheduled')")
	b.until("document.querySelectorAll('.bar option').length === 2 && document.querySelector('.log').textContent.length > 5")
	b.axe("pod")
	b.shoot("pod-log")
	b.quiet()
}

// TestOtherPorts sees that a page at another port of this machine can't have the browser ask, though it sends the cookie there.
func TestOtherPorts(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{})
	b.enter(s.link)
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>other</title>"))
	}))
	b.visit(other)
	var status string
	const ask = `fetch(%q, {credentials: "include", mode: %q}).then((r) => r.type + " " + r.status, (e) => "refused")`
	if err := b.eval(fmt.Sprintf(ask, s.local+"/api/v1/pods", "cors"), &status); err != nil || status != "refused" {
		t.Errorf("a page at another port reads the API: %q %v", status, err)
	}
	if err := b.eval(fmt.Sprintf(ask, s.local+"/api/v1/pods", "no-cors"), &status); err != nil || status != "refused" {
		t.Errorf("a page at another port has an opaque answer: %q %v", status, err)
	}
	framed := fmt.Sprintf(`new Promise((ok) => { const f = document.createElement("iframe"); f.onload = () => { let seen = "closed";
		try { if (f.contentDocument) seen = "open"; } catch {} ok(seen); }; f.src = %q; document.body.append(f); })`, s.local+"/ui/")
	if err := b.eval(framed, &status); err != nil || status != "closed" {
		t.Errorf("a page at another port frames the page: %q %v", status, err)
	}
}
