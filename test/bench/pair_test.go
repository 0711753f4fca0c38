package main

import (
	"strings"
	"testing"
)

func TestPairTable(t *testing.T) {
	var b strings.Builder
	pairTable(&b, "--no-trail", []pair{{line: line{name: "deployment, server CPU", unit: "s", label: " (etcd)"},
		values: [2][]float64{{4, 9, 5}, {3.6, 9, 4}}}})
	if got := strings.Join(strings.Fields(strings.Split(b.String(), "\n")[2]),
		" "); got != "deployment, server CPU (s) (etcd) 5.00 4.00 90.0 % 3" {
		t.Errorf("the row is %q", got)
	}
	b.Reset()
	if pairTable(&b, "", nil); b.Len() > 0 {
		t.Errorf("without pairs it prints %q", b.String())
	}
}
