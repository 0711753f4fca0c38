package ui

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// TestManyPods opens the page on a cluster of 1,000 pods, or as many as -args -pods says. How soon each view paints is logged and not
// judged; what makes it quick is: only the rows in sight are elements.
func TestManyPods(t *testing.T) {
	b := open(t)
	s := begin(t, cluster.Config{SimNodes: manyNodes})
	s.deployment("large", 2, nil)
	s.fill(*manyPods)
	b.enter(s.link)
	b.until("document.querySelector('.rowsbox')")
	for _, v := range []struct{ hash, mark, row, whole string }{
		{"#/", "board", ".gap", "document.querySelector('.rowsbox')"},
		{"#/list/pods", "objects", ".obj", "document.querySelector('.bar .sum').textContent >= " + fmt.Sprint(*manyPods)},
		{"#/nodes", "nodes", ".node", "document.querySelector('.bar .sum').textContent.match(/100 nodes, \\d+ pods$/)"},
	} {
		b.visit("about:blank")
		b.visit(s.local + "/ui/" + v.hash)
		b.until(fmt.Sprintf("performance.getEntriesByName(%q).length > 0", v.mark))
		b.until("performance.getEntriesByName('first-contentful-paint').length > 0")
		var paint, shown float64
		if err := b.eval("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0", &paint); err != nil {
			t.Fatal(err)
		}
		if err := b.eval(fmt.Sprintf("performance.getEntriesByName(%q)[0].startTime", v.mark), &shown); err != nil {
			t.Fatal(err)
		}
		b.until(v.whole)
		var elements int
		if err := b.eval(fmt.Sprintf("document.querySelectorAll(%q).length", v.row), &elements); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: first paint after %.0f ms, first rows after %.0f ms, %d rows are elements", v.mark, paint, shown, elements)
		if elements > 80 {
			t.Errorf("%s: %d rows are elements", v.mark, elements)
		}
		b.shoot("many-" + v.mark)
	}
	b.quiet()
}
