package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cli/ask"
)

// A form is a command, or a command with its second word, as it is typed.
type form struct {
	command
	line  string // image list
	facts bool   // it answers with facts
	fs    *flag.FlagSet
}

// forms are all that the table of commands has; what it gets, every test here gets.
func forms(t *testing.T) (list []form) {
	t.Helper()
	all, err := spellings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.name == "kubectl" || s.name == "help" || s.name == "completion" { // the second words are others' names
			var fs *flag.FlagSet
			if len(s.sets) > 0 {
				fs = s.sets[0]
			}
			list = append(list, form{s.command, s.name, false, fs})
			continue
		}
		words := s.words
		if bare := slices.Contains([]string{"install", "uninstall", "plan", "envtest"}, s.name); bare || len(words) == 0 {
			words = append([]string{""}, words...)
		}
		for _, w := range words {
			var got catcher
			line := strings.TrimSpace(s.name + " " + w)
			_ = s.run(t.Context(), stdio{strings.NewReader(""), &got, io.Discard}, append(strings.Fields(w), "-h"))
			facts := slices.Contains(s.says.words, w) || slices.Contains(s.says.words, "")
			list = append(list, form{s.command, line, facts, got.fs})
		}
	}
	return list
}

// plain are the forms that answer with no facts, and why.
var plain = map[string]string{
	"create": "acts: kloop list tells of the cluster", "stop": "acts", "start": "acts", "delete": "acts", "install": "acts",
	"install cluster": "acts",
	"install server":  "acts", "install node": "acts", "uninstall": "acts", "uninstall cluster": "acts", "uninstall server": "acts",
	"uninstall node": "acts", "reset": "acts", "image load": "acts", "image rm": "acts", "image pack": "acts", "member remove": "acts",
	"certs renew": "acts", "certs rotate": "acts", "certs finish": "acts", "backup": "acts", "restore": "acts", "man": "acts",
	"envtest": "acts, and prints as setup-envtest does", "envtest use": "acts, and prints as setup-envtest does",
	"up": "runs", "server": "runs", "controllers": "runs", "lookout": "runs", "node": "runs; --explain is for people",
	"ui": "runs: a page", "watch": "a screen: gaps, status and kubectl have the facts",
	"kubectl": "another program", "kubeconfig": "prints a file", "completion": "prints a program", "help": "for people",
}

// Every form either answers in every form of output, or has its reason not to.
func TestOutputOfEveryCommand(t *testing.T) {
	left := maps.Clone(plain)
	for _, f := range forms(t) {
		_, excused := plain[f.line]
		delete(left, f.line)
		if f.facts == excused {
			t.Errorf("kloop %s: answers with facts: %v; excused: %v", f.line, f.facts, excused)
		}
		if f.facts && (f.fs.Lookup("o") == nil || f.fs.Lookup("output") == nil) {
			t.Errorf("kloop %s has no -o", f.line)
		}
	}
	for line := range left {
		t.Errorf("the table has no command %q", line)
	}
}

// Help goes to the standard output, a complaint takes one line of the other one, with the flag that was meant.
func TestMisuseOfEveryCommand(t *testing.T) {
	for _, f := range forms(t) {
		if f.name == "kubectl" {
			continue
		}
		if out, errs, code := typed(t, f.line+" --help"); code != 0 || errs != "" || out == "" {
			t.Errorf("kloop %s --help: code %d, %q, %q", f.line, code, out, errs)
		}
		if f.name == "help" {
			continue
		}
		if out, errs, code := typed(t, f.line+strings.Repeat(" word", 300)); code != 2 || errs == "" || out != "" {
			t.Errorf("kloop %s with 300 words: code %d, %q, %q", f.line, code, out, errs)
		}
		slip := ""
		f.fs.VisitAll(func(fl *flag.Flag) {
			if len(fl.Name) > len(slip) {
				slip = fl.Name
			}
		})
		wrong := map[string]string{"--zzzzzzzzzzzz": "there is no flag --zzzzzzzzzzzz"}
		if len(slip) > 3 {
			wrong["--"+slip[:len(slip)-1]+"_"] = "did you mean --" + slip + "?"
		}
		if f.facts {
			wrong["-o xml"] = "neither json nor yaml"
		}
		for word, want := range wrong {
			out, errs, code := typed(t, f.line+" "+word)
			if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
				t.Errorf("kloop %s %s: code %d, %q, %q, want %q", f.line, word, code, out, errs, want)
			}
		}
	}
}

// The flags in a command's example are the command's own.
func TestExampleOfEveryCommand(t *testing.T) {
	list, err := spellings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		line, _, _ := strings.Cut(s.example, "  #")
		for _, w := range strings.Fields(line) {
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if w == "-" || !strings.HasPrefix(w, "-") || s.name == "kubectl" {
				continue
			}
			if !slices.ContainsFunc(s.flags, func(f *flag.Flag) bool { return f.Name == name }) {
				t.Errorf("%s: there is no flag %s", s.example, w)
			}
		}
	}
}

// answers are lines whose answers the forms that tell facts are tried by, and the exit code.
func answers(d *desk) map[string][]string {
	dir := filepath.Join(d.root, "t", "1")
	return map[string][]string{
		"list": {"list"}, "status": {"status", "status t"}, "why": {"why", "why deployment/huge"}, "gaps": {"gaps -A"}, "loops": {"loops"},
		"trace": {"trace deployment/web"}, "diff": {"diff", "diff deployment/web"}, "undo": {"undo deployment/web", "undo --since 1h"},
		"plan": {"plan scale deployment/web --replicas 3"}, "plan scale": {"plan scale deployment/web --replicas 1"},
		"plan drain": {"plan drain sim-0"}, "plan lose": {"plan lose node sim-0"}, "plan delete": {"plan delete deployment/web"},
		"plan set": {"plan set image deployment/web web=b"}, "plan upgrade": nil,
		"follow": {"follow web"}, "config show": {"config show --sim-nodes 2 --feature-gates AllAlpha=false"},
		"member list": nil, // an etcd store has members: below
		"certs list":  {"certs list"}, "version": {"version"},
		"token":      {"token --data-dir " + dir, "token --node --server https://h:1 --data-dir " + dir},
		"image list": nil, // nodes of real containers: TestRealCluster
	}
}

// What a command tells is the same in JSON and in YAML, and has no escapes in any form where there is no terminal.
func TestAnswersOfEveryCommand(t *testing.T) {
	d := newDesk(t, filepath.Join(t.TempDir(), "clusters"))
	d.run(0, "create t --sim-nodes 1")
	a := d.asker("kloop-t")
	for name, cpu := range map[string]string{"web": "1m", "huge": "1000"} {
		t.Run(name, func(t *testing.T) {
			labels := `{"labels":{"a":"` + name + `"}}`
			doc := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `"},"spec":{"replicas":1,` +
				`"selector":{"matchLabels":{"a":"` + name + `"}},"template":{"metadata":` + labels +
				`,"spec":{"containers":[{"name":"web","image":"a","resources":{"requests":{"cpu":"` +
				cpu + `"}}}]}}}}`
			path := "/apis/apps/v1/namespaces/default/deployments"
			post := a.Raw.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(doc))
			if data, err := post.DoRaw(t.Context()); err != nil {
				t.Fatal(ask.Refusal(data, err))
			}
		})
	}
	d.run(0, "follow web")
	for _, line := range []string{"why deployment/huge", "why"} { // what just began is told to who asks for it, and listed later
		for end := time.Now().Add(time.Minute); ; {
			if _, errs, code := typed(t, line); code == 3 {
				break
			} else if time.Now().After(end) {
				t.Fatalf("kloop %s: code %d, %q", line, code, errs)
			}
		}
	}
	page, err := os.ReadFile("../docs/output.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := answers(d)
	for _, f := range forms(t) {
		if _, known := lines[f.line]; f.facts && !known {
			t.Errorf("kloop %s answers with facts: say here how it is tried", f.line)
		}
		for _, line := range lines[f.line] {
			text, errs, code := typed(t, line)
			if code == 1 || code == 2 || strings.Contains(text+errs, "\x1b") || text+errs == "" {
				t.Errorf("kloop %s: code %d, %q, %q", line, code, text, errs)
			}
			onTerminals(t, line)
			first := sameData(t, line)
			if f.name == "plan" {
				documented(t, string(page), "plan", first)
			} else {
				documented(t, string(page), f.line, first)
			}
		}
	}
}

// sameData compares what a line tells in JSON and in YAML, document for document.
func sameData(t *testing.T, line string) any {
	t.Helper()
	inJSON, errs, code := typed(t, line+" -o json")
	inYAML, _, code2 := typed(t, line+" --output=yaml")
	var a, b []any
	for dec := json.NewDecoder(strings.NewReader(inJSON)); dec.More(); {
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("kloop %s -o json: %v: %s", line, err, inJSON)
		}
		a = append(a, v)
	}
	for doc := range strings.SplitSeq(strings.TrimPrefix(inYAML, "---\n"), "\n---\n") {
		var v any
		if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatalf("kloop %s -o yaml: %v: %s", line, err, inYAML)
		}
		b = append(b, v)
	}
	if len(a) == 0 {
		t.Fatalf("kloop %s -o json tells nothing", line)
	}
	if code != code2 || len(a) != len(b) || !reflect.DeepEqual(shapeOf(a), shapeOf(b)) {
		t.Errorf("kloop %s: codes %d and %d, %s\nin JSON: %s\nin YAML: %s", line, code, code2, errs, inJSON, inYAML)
	}
	if _, list := a[0].([]any); list {
		t.Errorf("kloop %s -o json is a bare list: there is no room beside it", line)
	}
	return a[0]
}

// documented fails where docs/output.md does not name a field of an answer.
func documented(t *testing.T, page, line string, answer any) {
	t.Helper()
	row := ""
	for l := range strings.Lines(page) {
		if strings.Contains(l, "`kloop "+line+"`") && strings.HasPrefix(l, "| `kloop ") {
			row = l
		}
	}
	fields, _ := answer.(map[string]any)
	names := slices.Collect(maps.Keys(fields))
	if list, _ := fields["items"].([]any); len(list) > 0 && !strings.Contains(row, "as the API has them") {
		names = slices.AppendSeq(names, maps.Keys(list[0].(map[string]any)))
	}
	for _, n := range names {
		if !strings.Contains(row, "`"+n+"`") && !strings.Contains(row, "and more") && !strings.Contains(row, "and others") {
			t.Errorf("docs/output.md has no `%s` of kloop %s: %q", n, line, row)
		}
	}
}

// shapeOf are the fields of the answers with their kinds: what is in them is another at every asking.
func shapeOf(answers []any) (list []map[string]string) {
	for _, a := range answers {
		shape := map[string]string{}
		fields, _ := a.(map[string]any)
		for k, v := range fields {
			shape[k] = fmt.Sprintf("%T", v)
		}
		list = append(list, shape)
	}
	return list
}

// One value is the same in both forms, of whatever it is made.
func TestBothForms(t *testing.T) {
	value := items([]any{"yes", "1.0", "2026-05-04T14:05:16Z", "- a: b\n# c", 1.5, true, nil, map[string]any{"a": []any{}, "no": "~"}})
	var trees [2]any
	for i, form := range []string{"json", "yaml"} {
		var o ask.Output
		var out bytes.Buffer
		if err := errors.Join(o.Set(form), o.Print(&out, value), o.Next(io.Discard, value)); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(out.Bytes(), &trees[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(trees[0], trees[1]) {
		t.Errorf("in JSON %v, in YAML %v", trees[0], trees[1])
	}
}

// What a command was to do is done when nobody reads what it prints.
func TestClosedPipe(t *testing.T) {
	home := filepath.Join(t.TempDir(), `it's "a home"`)
	d := newDesk(t, filepath.Join(home, "clusters"))
	first, second := filepath.Join(home, ".kube", "none yet"), filepath.Join(home, "second")
	t.Setenv("KUBECONFIG", first+string(filepath.ListSeparator)+second)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unread := func(line string) {
		t.Helper()
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(line)...)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			t.Errorf("kloop %s | true: %v", line, err)
		}
	}
	unread("create a --sim-nodes 1")
	unread("create b --sim-nodes 1")
	d.wants(d.run(0, "status"), "cluster   kloop-b", "state     running")
	if text, err := os.ReadFile(first); err != nil || !strings.Contains(string(text), "kloop-a") || exists(second) {
		t.Errorf("the contexts are not in the first of the kubeconfigs: %v, %s", err, text)
	}
	dir := filepath.Join(t.TempDir(), "man")
	unread("man " + dir)
	if _, err := os.Stat(filepath.Join(dir, "kloop.1")); err != nil {
		t.Error(err)
	}
	unread("delete a b")
	if out := d.run(0, "list -o json"); !strings.Contains(out, `"items": []`) {
		t.Errorf("left: %s", out)
	}
	var buf bytes.Buffer
	if n, err := (keeper{&buf}).Write([]byte("a")); n != 1 || err != nil || buf.String() != "a" {
		t.Errorf("%d, %v, %q", n, err, &buf)
	}
	if _, err := (keeper{broken{syscall.ENOSPC}}).Write(nil); err == nil {
		t.Error("a full disk is not told")
	}
}

// broken is a writer that can't write.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// Who asks about what is not there hears so, and a script by the exit code.
func TestNothingThere(t *testing.T) {
	d := newDesk(t, filepath.Join(t.TempDir(), "clusters"))
	d.wants(d.run(0, "list"), "there are no clusters")
	d.wants(d.run(0, "delete --all"), "there are no clusters")
	d.run(0, "create t --sim-nodes 1")
	for line, want := range map[string]string{
		"trace deployment/none": `there is no deployment "none" in namespace default`, "diff deployment/none": `there is no deployment "none"`,
		"undo deployment/none": `there is no deployment "none"`, "why deployment/none": `there is no deployment "none"`,
		"gaps -n none": `there is no namespace "none"`, "why -n none": `there is no namespace "none"`,
		"diff -n none": `there is no namespace "none"`, "undo --since 1h -n none": `there is no namespace "none"`,
		"why none": "has nothing named", "trace node/none": `there is no node "none"`,
	} {
		t.Run(line, func(t *testing.T) {
			d.wants(d.run(1, line), want)
			d.wants(d.run(1, line+" -o json"), want)
		})
	}
}

// Who may not ask hears who may not do what, not that nothing is there or that all is well, and a script by the exit code.
func TestFewRights(t *testing.T) {
	d := newDesk(t, filepath.Join(t.TempDir(), "clusters"))
	d.run(0, "create t --sim-nodes 1")
	for _, line := range []string{"trace configmap/secret", "trace configmap/secret --follow", "diff configmap/secret", "diff -n kube-system",
		"undo configmap/secret", "undo --since 1h -n kube-system", "why configmap/secret", "gaps -n kube-system", "loops", "follow web",
		"follow job/web", "plan scale deployment/web --replicas 3", "plan delete configmap/secret"} {
		out, errs, code := typed(t, line+" --as poor")
		if refused := strings.Contains(errs, `User "poor" cannot`) || strings.Contains(errs, "may not list"); code != 1 || out != "" || !refused {
			t.Errorf("kloop %s: code %d, %q, %q", line, code, out, errs)
		}
	}
}
