package simtest

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// A seed always rolls the same faults, each of a kind that can happen where it is.
func TestRoll(t *testing.T) {
	places := []place{{"step", 1}, {"step", 2}, {"create pods", 1}, {"update pods", 3}, {"list pods", 1}, {"event pods", 4}}
	kinds := map[Kind]bool{}
	for seed := range uint64(500) {
		list := roll(seed, All, 4, places, 10)
		if again := roll(seed, All, 4, places, 10); !reflect.DeepEqual(list, again) {
			t.Fatalf("seed %d rolls %v, and then %v", seed, list, again)
		}
		for _, f := range list {
			kinds[f.Kind] = true
			if !f.Kind.fits(f.Site) {
				t.Errorf("seed %d: %s can't happen there", seed, f)
			}
		}
	}
	for _, k := range All {
		if !kinds[k] {
			t.Errorf("no seed rolls %q", k)
		}
	}
}

// Two ends differ in the lines that only one of them has.
func TestDifference(t *testing.T) {
	got := difference([]string{"a", "b", "b"}, []string{"b", "c"})
	if want := []string{"  - a", "  - b", "  + c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The sample in the documentation is the one that is compiled and run here.
func TestSampleOfDocs(t *testing.T) {
	code, err := os.ReadFile("sample_test.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(code), "// The sample of docs/testing.md.\n")
	sample, _, _ = strings.Cut(sample, "\n}\n")
	if n := strings.Count(sample, "\n"); n > 20 {
		t.Errorf("the first test has %d lines, and is to have 20", n)
	}
	if !strings.Contains(string(docs), sample) {
		t.Errorf("docs/testing.md does not show this:\n%s", sample)
	}
}
