package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const pkg = module + "/proxy"

// lines makes the output of go test -json.
func lines(t *testing.T, events ...event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		if e.Package == "" {
			e.Package = pkg
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func TestVerdicts(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	known := []flicker{
		{"proxy.TestKnown", day.AddDate(0, 0, -3), day.AddDate(0, 0, 27), "slow disk"},
		{"proxy.TestExpired", day.AddDate(0, 0, -40), day.AddDate(0, 0, -10), "slow disk"},
	}
	failed, late := event{Action: "fail"}, "panic: test timed out after 12m0s\n"
	for _, tt := range []struct {
		name   string
		events []event
		want   string
	}{
		{"an accident", []event{{Action: "fail", Test: "TestIt"}, failed}, ""},
		{"a part of a test", []event{{Action: "fail", Test: "TestIt/part"}, {Action: "fail", Test: "TestIt"}, failed}, ""},
		{"says that it judges", []event{{Action: "attr", Test: "TestIt/a", Key: "retry", Value: "never"}, {Action: "fail", Test: "TestIt"},
			failed},
			"judges what must hold every time"},
		{"its name says that it judges", []event{{Action: "fail", Test: "TestLinearizable"}, failed}, "judges what must hold every time"},
		{"its folder says so", []event{{Action: "fail", Test: "TestIt", Package: module + "/store/etcd"},
			{Action: "fail", Package: module + "/store/etcd"}},
			"judges what must hold every time"},
		{"a data race", []event{{Action: "output", Test: "TestOther", Output: "WARNING: DATA RACE\n"}, {Action: "fail", Test: "TestIt"},
			failed}, "WARNING: DATA RACE"},
		{"a panic", []event{{Action: "output", Test: "TestIt", Output: "panic: index out of range\n"}, {Action: "fail", Test: "TestIt"},
			failed}, "panic"},
		{"did not end", []event{{Action: "fail", Test: "TestOther"}, {Action: "output", Test: "TestIt", Output: late},
			{Action: "fail", Test: "TestIt"}, failed}, ""},
		{"did not end and judges", []event{{Action: "output", Test: "TestIt", Output: late, Package: module + "/sim"},
			{Action: "fail", Package: module + "/sim"}}, "did not end, and judges what must hold every time"},
		{"no test failed", []event{failed}, "does not build, or fails outside its tests"},
		{"known", []event{{Action: "fail", Test: "TestKnown"}, failed}, "it failed before: mend it"},
		{"known long ago", []event{{Action: "fail", Test: "TestExpired"}, failed}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReport(io.Discard)
			if err := r.read(strings.NewReader(lines(t, tt.events...))); err != nil {
				t.Fatal(err)
			}
			if len(r.failures) != 1 {
				t.Fatalf("failures %v, want one", r.failures)
			}
			if got := r.failures[0].verdict(known, day, 1); got != tt.want {
				t.Errorf("verdict %q, want %q", got, tt.want)
			}
		})
	}
}

// What a test complained of stands in the table of steps: it is all that is seen of a run far away.
func TestComplaintIsTold(t *testing.T) {
	r := newReport(io.Discard)
	err := r.read(strings.NewReader(lines(t,
		event{Action: "output", Test: "TestIt/part", Output: "--- FAIL: TestIt/part (0.1s)\n"},
		event{Action: "output", Test: "TestIt/part", Output: "        it_test.go:12: got\t1\n"},
		event{Action: "output", Test: "TestIt/part", Output: "        it_test.go:13: and more\n"},
		event{Action: "fail", Test: "TestIt/part"}, event{Action: "fail", Test: "TestIt"}, event{Action: "fail"})))
	if err != nil {
		t.Fatal(err)
	}
	const want = "proxy.TestIt (one of many): it_test.go:12: got 1; it_test.go:13: and more"
	if got := r.failures[0].told("one of many"); len(r.failures) != 1 || got != want {
		t.Errorf("told %q of %d failures", got, len(r.failures))
	}
}

func TestManyFailuresAreNoAccident(t *testing.T) {
	if got := (failure{pkg: pkg, test: "TestIt"}).verdict(nil, time.Now(), most+1); got == "" {
		t.Error("a test is tried again although many failed")
	}
}

func TestOnlyFailuresAreShown(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	err := r.read(strings.NewReader(lines(t,
		event{Action: "output", Test: "TestGood", Output: "fine\n"}, event{Action: "pass", Test: "TestGood"},
		event{Action: "output", Test: "TestBad", Output: "wrong\n"}, event{Action: "fail", Test: "TestBad"},
		event{Action: "skip", Test: "TestRoot"}, event{Action: "fail"})))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "fine") || !strings.Contains(got, "wrong\n") {
		t.Errorf("printed %q", got)
	}
	if !slices.Equal(r.skipped, []string{"proxy.TestRoot"}) {
		t.Errorf("skipped %v", r.skipped)
	}
}

func TestFlickersAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flickers.tsv")
	if err := os.WriteFile(path, []byte("proxy.TestOld\t2026-01-01\t2026-01-31\tslow disk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if err := addFlicker(path, flicker{"proxy.TestNew", now, now.Add(memory), "not looked into yet"}, now); err != nil {
		t.Fatal(err)
	}
	list, err := readFlickers(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].test != "proxy.TestNew" || list[0].expires.Format(time.DateOnly) != "2026-03-31" {
		t.Errorf("kept %v, want TestNew alone, until the end of March", list)
	}
}

func TestFlickersOfThisRepository(t *testing.T) {
	if _, err := readFlickers("flickers.tsv"); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"all", nil, "build runtime vm browser shell kubectl unit race race-short cross bgp images e2e postgres ecosystem oracle site " +
			"race-clusters guests lint"},
		{"one lane", []string{"check"}, "build lint-fast unit-fast"},
		{"two steps in the order of the table", []string{"race", "build"}, "build race"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chosen, err := choose(tt.args)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range chosen {
				names = append(names, s.name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("%v chooses %s, want %s", tt.args, got, tt.want)
			}
		})
	}
	if _, err := choose([]string{"rase"}); err == nil {
		t.Error("a step that is not there is chosen")
	}
}

// TestHang: a package that ends in the middle of a test shows what the test said.
func TestHang(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	err := r.read(strings.NewReader(lines(t, event{Action: "output", Test: "TestOther", Output: "fine\n"},
		event{Action: "pass", Test: "TestOther"},
		event{Action: "output", Test: "TestIt", Output: "waiting\n"}, event{Action: "output", Test: "TestIt", Output: "SIGQUIT: quit\n"},
		event{Action: "fail"})))
	if got := out.String(); err != nil || !strings.Contains(got, "not ended: TestIt\nwaiting\nSIGQUIT: quit\n") ||
		strings.Contains(got, "fine") {
		t.Errorf("%v: %s", err, got)
	}
}

// TestWorkflow: what .ci/run runs in one go runs side by side elsewhere, all of it.
func TestWorkflow(t *testing.T) {
	data, err := os.ReadFile("../../.github/workflows/ci.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, matrix, _ := strings.Cut(string(data), "steps: [")
	matrix, _, _ = strings.Cut(matrix, "]")
	named := append(strings.FieldsFunc(matrix, func(r rune) bool { return r == ' ' || r == ',' }), "runtime", "kubectl") // these in each
	for _, s := range steps {
		if !slices.Equal(s.lanes, []string{"check"}) && !slices.Contains(named, s.name) {
			t.Errorf("the workflow does not run %s", s.name)
		}
	}
}

// What is tested again by the names of tests is found in their files.
func TestTestsOf(t *testing.T) {
	names, err := testsOf("../e2e/restart_test.go")
	if err != nil || !slices.Equal(names, []string{"TestCleanRestart"}) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := testsOf("none_test.go"); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// TestEveryPackageRuns: a package with tests is in the lists of unit or race, or has a step of its own.
func TestEveryPackageRuns(t *testing.T) {
	t.Chdir("../..")
	list, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	plain, whole, part, err := split(list)
	if err != nil {
		t.Fatal(err)
	}
	run := slices.Concat(plain, whole, part, []string{module + "/" + guests})
	for _, p := range list {
		if p.tested() && !slices.Contains(run, p.ImportPath) {
			t.Errorf("no step runs the tests of %s", p.ImportPath)
		}
	}
	for _, name := range long {
		if !slices.Contains(run, module+"/"+name) {
			t.Errorf("%s takes long, and has no tests", name)
		}
	}
	for _, name := range clusters {
		if !slices.Contains(whole, module+"/"+name) {
			t.Errorf("%s runs clusters, and is not raced whole", name)
		}
	}
	if first := strings.TrimPrefix(plain[0], module+"/"); first != long[0] {
		t.Errorf("%s begins first, not %s", first, long[0])
	}
}
