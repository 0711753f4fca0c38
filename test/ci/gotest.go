package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// An event is a line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output, Key, Value, ImportPath, FailedBuild string
	Elapsed                                                            float64
}

// A failure is a test that failed, or a package outside its tests if test is empty.
type failure struct {
	pkg, test string
	final     string // why it is not run again; empty if it may be
	said      string // what the test said first, or a part of it: complaints and what it logged look alike
}

// A report collects what go test says.
type report struct {
	out      io.Writer
	pending  map[string][]string // output of a test that has not ended
	attrs    map[string]bool     // tests that asked not to be run again
	final    map[string]string   // packages in which something happened that makes every failure final
	hung     map[string]bool     // packages that were ended at their limit: nothing is known of their other tests
	failures []failure
	skipped  []string
}

func newReport(out io.Writer) *report {
	return &report{out: out, pending: map[string][]string{}, attrs: map[string]bool{}, final: map[string]string{}, hung: map[string]bool{}}
}

// goTest runs go test and returns what it reports; err is a run that could not be read.
func (j *job) goTest(flags, packages []string) (*report, error) {
	args := slices.Concat([]string{"test", "-json", "-timeout", "40m"}, flags, packages)
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr, cmd.Env = j.dir, j.out, append(os.Environ(), j.env...)
	if slices.Contains(flags, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := newReport(j.out)
	if err := r.read(stdout); err != nil {
		return nil, fmt.Errorf("reading go %s: %w", strings.Join(args, " "), err)
	}
	err = cmd.Wait()
	j.spent(cmd)
	if err != nil && len(r.failures) == 0 {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return r, nil
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.out, lines.Text()) // go itself speaks
			continue
		}
		r.take(e)
	}
	return lines.Err()
}

func (r *report) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.pending[key] = append(r.pending[key], e.Output)
		if strings.HasPrefix(e.Output, "panic: test timed out") {
			r.hung[e.Package] = true
		} else if why := fatal(e.Output); why != "" {
			r.final[e.Package] = why
		}
	case "attr":
		if e.Key == "retry" && e.Value == "never" {
			r.attrs[e.Package+" "+top(e.Test)] = true
		}
	case "pass":
		r.ended(e, key)
	case "skip":
		if e.Test != "" {
			r.skipped = append(r.skipped, short(e.Package)+"."+e.Test)
		}
		r.ended(e, key)
	case "fail":
		r.failed(e, key)
	}
}

// ended forgets the output of a test, and prints a package's last line.
func (r *report) ended(e event, key string) {
	if e.Test == "" && e.Action == "pass" {
		fmt.Fprintf(r.out, "ok    %-40s %7.1f s\n", short(e.Package), e.Elapsed)
	}
	delete(r.pending, key)
}

func (r *report) failed(e event, key string) {
	var said []string
	for _, line := range r.pending[key] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.out, line)
		}
		if words := complaint(line); words != "" && len(said) < 10 {
			said = append(said, words)
		}
	}
	delete(r.pending, key)
	if e.Test != "" {
		r.remember(failure{pkg: e.Package, test: top(e.Test), said: strings.Join(said, "; ")})
		return
	}
	r.unended(e.Package)
	fmt.Fprintf(r.out, "FAIL  %-40s %7.1f s\n", short(e.Package), e.Elapsed)
	r.settle(e)
}

// remember adds a failure once, however many parts of its test failed.
func (r *report) remember(f failure) {
	i := slices.IndexFunc(r.failures, func(other failure) bool { return other.pkg == f.pkg && other.test == f.test })
	if i < 0 {
		r.failures = append(r.failures, f)
	} else if r.failures[i].said == "" {
		r.failures[i].said = f.said
	}
}

var complaintLine = regexp.MustCompile(`^\s+(\w+\.go:\d+: .*)`)

// complaint returns the words of t.Error, t.Fatal or t.Log, cut to what a table of steps has room for; none for other lines.
func complaint(line string) string {
	found := complaintLine.FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	return fmt.Sprintf("%.150s", strings.Join(strings.Fields(found[1]), " "))
}

// unended prints what the tests said that had not ended when their package did: it hung, or was killed.
func (r *report) unended(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(r.pending)) {
		if of, test, _ := strings.Cut(key, " "); of == pkg {
			fmt.Fprintf(r.out, "not ended: %s\n%s", test, strings.Join(r.pending[key], ""))
			delete(r.pending, key)
		}
	}
}

// settle says, when a package has ended, which of its failures are final.
func (r *report) settle(e event) {
	if r.hung[e.Package] {
		r.settleHung(e.Package)
		return
	}
	mine := 0
	for i := range r.failures {
		f := &r.failures[i]
		if f.pkg != e.Package {
			continue
		}
		mine++
		switch {
		case r.final[f.pkg] != "":
			f.final = r.final[f.pkg]
		case r.attrs[f.pkg+" "+f.test] || judges(f.pkg, f.test):
			f.final = "judges what must hold every time"
		}
	}
	if mine == 0 {
		r.failures = append(r.failures, failure{pkg: e.Package, final: "does not build, or fails outside its tests"})
	}
}

// settleHung makes one failure of all in a package that was ended at its limit: it is run again whole, or not at all.
func (r *report) settleHung(pkg string) {
	one := failure{pkg: pkg, final: r.final[pkg]}
	judging := judges(pkg, "") || slices.ContainsFunc(r.failures, func(f failure) bool {
		return f.pkg == pkg && (judges(pkg, f.test) || r.attrs[pkg+" "+f.test])
	})
	if one.final == "" && judging {
		one.final = "did not end, and judges what must hold every time"
	}
	r.failures = append(slices.DeleteFunc(r.failures, func(f failure) bool { return f.pkg == pkg }), one)
}

var fatalLine = regexp.MustCompile(`^(WARNING: DATA RACE|panic: |fatal error: |--- FAIL: Fuzz)`)

// fatal names what a line of output says that must not happen even once.
func fatal(line string) string { return strings.TrimSuffix(fatalLine.FindString(line), ": ") }

func top(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

func short(pkg string) string { return strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/") }

const module = "github.com/kloop-dev/kloop"
