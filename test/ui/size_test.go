package ui

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
)

const manyNodes = 100

var manyPods = flag.Int("pods", 1000, "how many pods TestManyPods makes")

// fill makes pods on the site's nodes, many at a time.
func (s *site) fill(pods int) {
	s.t.Helper()
	todo := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range todo {
				web := []corev1.Container{{Name: "web", Image: "nginx:1", Resources: asks("50m", "64Mi")}}
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%05d", i)},
					Spec: corev1.PodSpec{NodeName: fmt.Sprintf("sim-%d", i%manyNodes), Containers: web}}
				if _, err := s.cs.CoreV1().Pods("default").Create(s.t.Context(), p, metav1.CreateOptions{}); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	for i := range pods {
		todo <- i
	}
	close(todo)
	wg.Wait()
}

// TestManyPods opens the page on a cluster of 1,000 pods, or as many as -args -pods says, as its administrator, and as one who may view
// a namespace alone. How soon each view paints is logged and not judged; what makes it quick is: only the rows in sight are elements. It
// goes by keys, and axe judges it, with so many rows too.
func TestManyPods(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: manyNodes})
	s.deployment("large", 2, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Resources = asks("100", "1Gi") })
	s.fill(*manyPods)
	b.enter(s.link)
	b.until("document.querySelector('.rowsbox')")
	views := []look{{"#/", "board", ".gap", "document.querySelector('.gap')"},
		{"#/list/pods", "objects", ".obj", "document.querySelector('.bar .sum').textContent >= " + fmt.Sprint(*manyPods)},
		{"#/nodes", "nodes", ".node", "document.querySelector('.bar .sum').textContent.match(/100 nodes, \\d+ pods$/)"}}
	b.paints(s.local, "administrator", views)
	s.mayView(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"})
	few := s.ui("jane")
	b.enter(few)
	at, _, _ := strings.Cut(few, "/ui/")
	views[0].whole = "document.querySelector('.gap b')?.textContent === 'deployment/large' && " +
		"document.getElementById('namespace').value === 'default'"
	b.paints(at, "few rights", views[:2])
	b.visit(at + "/ui/")
	b.until("document.querySelector('.gap') && document.activeElement.getAttribute('role') === 'listbox'")
	b.press("j")
	b.until("document.querySelector('.gap[aria-selected=true]')")
	b.press("Enter")
	b.until("location.hash === '#/o/deployments.apps/default/large' && document.querySelector('.tree li')")
	b.press("o")
	b.until("location.hash === '#/list' && document.querySelector('.bar')")
	b.quiet()
}

// A look is a view: the mark that it sets when its first rows are there, what a row is, and what is true when it is whole.
type look struct{ hash, mark, row, whole string }

// paints opens each view anew and logs how soon it is there.
func (b *tab) paints(at, who string, views []look) {
	b.t.Helper()
	for _, v := range views {
		b.visit("about:blank")
		b.visit(at + "/ui/" + v.hash)
		b.until(fmt.Sprintf("performance.getEntriesByName(%q).length > 0", v.mark))
		b.until("performance.getEntriesByName('first-contentful-paint').length > 0")
		var paint, shown float64
		if err := b.eval("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0", &paint); err != nil {
			b.t.Fatal(err)
		}
		if err := b.eval(fmt.Sprintf("performance.getEntriesByName(%q)[0].startTime", v.mark), &shown); err != nil {
			b.t.Fatal(err)
		}
		b.until(v.whole)
		var elements int
		if err := b.eval(fmt.Sprintf("document.querySelectorAll(%q).length", v.row), &elements); err != nil {
			b.t.Fatal(err)
		}
		b.t.Logf("%s, %s: first paint after %.0f ms, first rows after %.0f ms, %d rows are elements", who, v.mark, paint, shown, elements)
		if elements > 80 {
			b.t.Errorf("%s: %d rows are elements", v.mark, elements)
		}
		b.axe(who + ", " + v.mark)
		if who == "administrator" {
			b.shoot("many-" + v.mark)
		}
	}
}
