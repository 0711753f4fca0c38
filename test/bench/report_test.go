package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	var list times
	for i := 100; i > 0; i-- {
		list = append(list, time.Duration(i)*time.Millisecond)
	}
	for p, want := range map[float64]float64{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := list.at(p); got != want {
			t.Errorf("p%v: got %v, want %v", p*100, got, want)
		}
	}
	if got := (times)(nil).at(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestTable(t *testing.T) {
	r := &report{}
	r.add("API ready", " (memory)", 170, "ms")
	r.add("create Pods, 64-way", " (etcd)", 3700, "/s")
	r.add("something else", "", 1, "s")
	var out bytes.Buffer
	r.table(&out)
	for i, want := range []string{"figure", "API ready (ms) (memory) 170 3400 20.0 100 no",
		"create Pods, 64-way (/s) (etcd) 3700 740 5.00 3000 yes", "something else (s) 1.00"} {
		if got := strings.Join(strings.Fields(strings.Split(strings.TrimSpace(out.String()), "\n")[i]), " "); !strings.HasPrefix(got, want) {
			t.Errorf("line %d: got %q, want %q", i, got, want)
		}
	}
}
