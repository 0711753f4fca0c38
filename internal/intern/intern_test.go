package intern

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSame(t *testing.T) {
	var p Pool
	form := func(image string) *corev1.Container { return &corev1.Container{Image: image} }
	made := func(x any) func() any { return func() any { return x } }
	first := form("a")
	if got := p.Same('c', first, made(first)); got != first {
		t.Error("the first of its form is not the one that is kept")
	}
	if got := p.Same('c', form("a"), made(form("a"))); got != first {
		t.Error("an equal part is not the one that is known")
	}
	if got := p.Same('i', form("a"), made(1)); got != 1 {
		t.Error("a part of something else was taken for it")
	}
	if second := form("b"); p.Same('c', second, made(second)) != second {
		t.Error("a part of another form was taken for it")
	}
}

// What is in use stays known, however many others come once.
func TestBound(t *testing.T) {
	var p Pool
	know := func(form string, n int) any { return p.Bytes('x', []byte(form), func() any { return n }) }
	know("used", 1)
	know("once", 1)
	for i := range 10 * most {
		if know("used", 2) != 1 {
			t.Fatalf("what is in use was forgotten after %d others", i)
		}
		know(fmt.Sprint(i), i)
		if n := len(p.young) + len(p.old); n > 2*most {
			t.Fatalf("%d parts are known", n)
		}
	}
	if know("once", 2) != 2 {
		t.Error("what was seen once is known for ever")
	}
}

func TestIdentical(t *testing.T) {
	a := corev1.Container{Image: "a", Env: []corev1.EnvVar{{Name: "A"}}}
	b := a
	if !Identical(&a, &b) {
		t.Error("a copy is not identical")
	}
	b.Env = []corev1.EnvVar{{Name: "A"}}
	if Identical(&a, &b) {
		t.Error("an equal part in other memory is identical")
	}
}
