package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/test/need"
)

// A site is a cluster, and kloop ui beside it.
type site struct {
	t     *testing.T
	c     *cluster.Cluster
	cs    *kubernetes.Clientset
	link  string
	local string // address of kloop ui
}

// begin starts a cluster in memory and kloop ui with an administrator's kubeconfig.
func begin(t *testing.T, cfg cluster.Config) *site {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.Kit = whole.Kit()
	c, err := cluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	r, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	r.QPS, r.Burst = 1000, 2000
	cs, err := kubernetes.NewForConfig(r)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, c: c, cs: cs}
	s.link = s.ui("kubernetes-admin", "system:masters")
	s.local, _, _ = strings.Cut(s.link, "/ui/")
	return s
}

// ui runs kloop ui with the rights of a user until the test ends, and returns the link that it prints.
func (s *site) ui(user string, groups ...string) string {
	s.t.Helper()
	config, err := s.c.Kubeconfig(user, groups...)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "config")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(ctx, strings.NewReader(""), in, io.Discard, []string{"kloop", "ui", "--kubeconfig", file})
		_ = in.Close()
	}()
	s.t.Cleanup(func() {
		stop()
		if code := <-done; code != 0 {
			s.t.Errorf("kloop ui ended with %d", code)
		}
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return strings.TrimSpace(line)
}

// deployment makes one; change is given its pods' spec.
func (s *site) deployment(name string, replicas int32, change func(*appsv1.Deployment)) {
	s.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1", Resources: asks("100m", "64Mi")}}}}}}
	if change != nil {
		change(d)
	}
	if _, err := s.cs.AppsV1().Deployments("default").Create(s.t.Context(), d, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func asks(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}}
}

// trouble makes the gaps that the views show.
func (s *site) trouble() {
	s.t.Helper()
	s.deployment("large", 2, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = asks("100", "1Gi") })
	for i := range 4 {
		s.deployment(fmt.Sprintf("shop-%d", i), 1, func(d *appsv1.Deployment) {
			claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: "orders"}
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &claim}}}
		})
	}
}

// axe judges what the page shows now; it must find nothing.
func (b *tab) axe(where string) {
	b.t.Helper()
	code, err := os.ReadFile("../../bin/axe/node_modules/axe-core/axe.min.js")
	need.Have(b.t, need.Browser, err)
	if err := b.eval("window.axe ? 1 : (() => {"+string(code)+"\n})()", nil); err != nil {
		b.t.Fatal(err)
	}
	var found []struct {
		ID, Help string
		Nodes    []struct {
			HTML           string
			FailureSummary string
		}
	}
	const run = "axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.parse(JSON.stringify(r.violations)))"
	if err := b.eval(run, &found); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range found {
		b.t.Errorf("%s: axe: %s: %s: %.400s %.400s", where, v.ID, v.Help, v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
	}
}

// dark has the page ask for light or dark.
func (b *tab) dark(on bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	if err := b.eval(fmt.Sprintf("document.documentElement.dataset.theme = %q", scheme), nil); err != nil {
		b.t.Fatal(err)
	}
}

// atLeast is true in the page when it has so many elements.
func atLeast(selector string, n int) string {
	return fmt.Sprintf("document.querySelectorAll(%q).length >= %d", selector, n)
}

// says is true in the page when it shows a text.
func says(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// TestViews opens each view on a cluster with gaps, light and dark, and by keys.
func TestViews(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: 3})
	s.deployment("nginx", 3, nil)
	s.trouble()
	b.enter(s.link)
	b.until("document.querySelector('.gap.group')")
	for _, v := range []struct{ name, hash, shows string }{
		{"board", "#/", "document.querySelector('.gap.group .count')?.textContent === '4' && " + atLeast(".gap", 2)},
		{"loops", "#/loops", "document.querySelector('[data-loop=replicaset]') && document.querySelector('.side .plain a')"},
		{"flow", "#/loops/replicaset", "document.querySelector('.cell[data-flow=next] [data-loop=scheduler]') && " +
			"document.querySelector('.cell[data-flow=from] [data-loop=deployment]')"},
		{"object", "#/o/deployments.apps/default/large", atLeast(".tree li", 3) + "&&" + atLeast(".steps li", 3) + "&&" +
			atLeast(".family li", 3) + "&&" + says("no node of this size")},
		{"converged", "#/o/deployments.apps/default/nginx", says("It is what it should be") + "&&" + says("3 available") + "&&" +
			"document.querySelector('.steps').innerText.includes('scheduler')"},
		{"pod", "#/list/pods", atLeast(".obj", 9)},
		{"nodes", "#/nodes", atLeast(".node", 3) + "&&" + atLeast(".lost li", 2) + "&& document.querySelector('.whole i')"},
	} {
		b.route(v.hash)
		b.until(v.shows)
		for _, dark := range []bool{false, true} {
			b.dark(dark)
			b.axe(v.name)
			b.shoot(v.name + map[bool]string{true: "-dark", false: ""}[dark])
		}
		b.dark(false)
	}
	b.quiet()
}

// TestKeys goes from the board to an object and back without a mouse.
func TestKeys(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: 1})
	s.deployment("large", 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = asks("100", "1Gi") })
	b.enter(s.link)
	b.until("document.querySelector('.gap') && document.activeElement.getAttribute('role') === 'listbox'")
	b.press("j")
	b.until("document.querySelector('.gap[aria-selected=true]')")
	b.press("Enter")
	b.until("location.hash.startsWith('#/o/') && document.querySelector('.tree li')")
	b.press("l")
	b.until("location.hash === '#/loops' && document.querySelector('.cell')")
	b.press("/")
	b.until("document.querySelector('dialog.find') && document.activeElement.id === 'goal'")
	b.do("Input.insertText", map[string]any{"text": "deploy/lar"}, nil)
	b.until("document.querySelector('#goals li b')?.textContent === 'deployment/large'")
	b.axe("find")
	b.press("Enter")
	b.until("location.hash === '#/o/deployments.apps/default/large' && !document.querySelector('dialog')")
	b.press("?")
	b.until("document.querySelector('dialog.help')")
	b.axe("help")
	b.quiet()
}

// TestConverges watches a deployment come to life, as a newcomer does: the page follows without being asked.
func TestConverges(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{})
	b.enter(s.link)
	b.until("document.body.innerText.includes('Every loop is closed')")
	b.axe("calm")
	b.shoot("calm")
	s.deployment("nginx", 2, nil)
	b.until("[...document.querySelectorAll('.gap b')].some((x) => x.textContent === 'deployment/nginx')") // there is no node
	b.route("#/o/deployments.apps/default/nginx")
	b.until("document.querySelectorAll('.tree li').length > 1")
	b.quiet()
}

// hostile is what a name's owner would write to run code in the page of who looks.
const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>{{7*7}}javascript:window.pwned=3`

// TestHostile fills a cluster with texts that are markup: the page shows them as they are.
func TestHostile(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: 1})
	s.deployment("evil", 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources = asks("100", "1Gi")
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: hostile}}
		d.Annotations = map[string]string{"note": hostile}
	})
	about := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "evil", Namespace: "default"}
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "evil.1", Namespace: "default"}, Type: corev1.EventTypeWarning,
		Reason: hostile, Message: hostile, InvolvedObject: about, LastTimestamp: metav1.Now()}
	if _, err := s.cs.CoreV1().Events("default").Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.enter(s.link)
	b.until("document.querySelector('.gap')")
	b.route("#/o/deployments.apps/default/evil")
	b.until("document.querySelector('tbody td:nth-child(4)')?.textContent.includes('<img src=x')")
	b.route("#/plan")
	b.until("document.getElementById('file')")
	report, err := json.Marshal(map[string]any{"change": hostile, "verdict": hostile, "stuck": true, "lasts": "1s",
		"workloads": []any{map[string]any{"kind": hostile, "name": hostile, "namespace": hostile, "least": 0, "at": "1s", "short": hostile}},
		"gaps":      []any{map[string]any{"kind": hostile, "name": hostile, "verdict": hostile, "state": hostile}}, "unknown": []string{hostile}})
	if err != nil {
		t.Fatal(err)
	}
	drop := `(() => { const d = new DataTransfer(); d.items.add(new File([` + string(mustJSON(t, string(report))) + `], "plan.json"));
		document.getElementById("main").dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true})); })()`
	if err := b.eval(drop, nil); err != nil {
		t.Fatal(err)
	}
	b.until("document.querySelector('.verdict')?.textContent.includes('<img src=x')")
	var ran, made bool
	if err := b.eval("window.pwned !== undefined", &ran); err != nil {
		t.Fatal(err)
	}
	if err := b.eval("!!document.querySelector('main img, main script')", &made); err != nil {
		t.Fatal(err)
	}
	if ran || made {
		t.Errorf("a text of the cluster became code (%v) or markup (%v)", ran, made)
	}
	b.quiet()
	// The policy stands behind the page's care: markup from a string is refused, and so is code in it.
	if err := b.eval("document.body.innerHTML = '<b>x</b>'", nil); err == nil || !strings.Contains(err.Error(), "TrustedHTML") {
		t.Errorf("the policy lets strings become markup: %v", err)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
