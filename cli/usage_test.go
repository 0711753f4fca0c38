package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
)

// typed runs a command line as a person would and returns what it printed, and where.
func typed(t *testing.T, line string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), strings.NewReader(""), &o, &e, append([]string{"kloop"}, strings.Fields(line)...))
	return o.String(), e.String(), code
}

// Every command says what it does, with an example of itself, on the standard output, so that it can be searched and paged.
func TestHelpOfEveryCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/jane/secret-place")
	for _, c := range commands() {
		if !strings.HasPrefix(c.example, "kloop "+c.name) && !strings.Contains(c.example, "kloop "+c.name+" ") {
			t.Errorf("the example of %s is %q", c.name, c.example)
		}
		out, errs, code := typed(t, "help "+c.name)
		for _, want := range []string{c.about, "usage: kloop " + c.name, c.example} {
			if code != 0 || errs != "" || !strings.Contains(out, want) {
				t.Errorf("help %s: code %d, stderr %q, no %q in %q", c.name, code, errs, want, out)
			}
		}
		if strings.Contains(out, "/home/jane") {
			t.Errorf("help %s shows the caller's environment as a default", c.name)
		}
	}
	for _, line := range []string{"help", "-h", "--help"} {
		if out, errs, code := typed(t, line); code != 0 || errs != "" || !strings.Contains(out, "\nUnderstanding it\n") {
			t.Errorf("%s: code %d, %q, %q", line, code, out, errs)
		}
	}
	if out, errs, code := typed(t, "help wy"); code != 2 || out != "" || !strings.Contains(errs, "did you mean why?") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	if _, errs, code := typed(t, "image lod x"); code != 2 || !strings.Contains(errs, "did you mean load?") {
		t.Errorf("code %d, %q", code, errs)
	}
	if out, _, _ := typed(t, "up -h"); !strings.Contains(out, "\nsnapshots\n") || strings.Index(out, "\nflags\n") > strings.Index(out,
		"\naudit\n") {
		t.Errorf("the flags of up are not in sections, common ones first:\n%s", out)
	}
}

func TestVersion(t *testing.T) {
	for _, line := range []string{"version", "--version", "-v"} {
		if out, _, code := typed(t, line); code != 0 || !strings.HasPrefix(out, "kloop v1.") {
			t.Errorf("%s: code %d, %q", line, code, out)
		}
	}
	if out, _, code := typed(t, "version -o json"); code != 0 || !strings.Contains(out, `"gitVersion": "v1.`) {
		t.Errorf("code %d, %q", code, out)
	}
	var bom struct {
		Components []struct{ Name, Version, PURL string }
	}
	out, _, code := typed(t, "version -o cyclonedx")
	if err := json.Unmarshal([]byte(out), &bom); err != nil || code != 0 || len(bom.Components) == 0 || bom.Components[0].Name != "std" {
		t.Errorf("the SBOM: code %d, %v, %.300s", code, err, out)
	}
	for _, c := range bom.Components {
		if c.Version == "" || c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("in the SBOM: %+v", c)
		}
	}
	if _, _, code := typed(t, "version -o xml"); code != 2 {
		t.Errorf("xml: code %d", code)
	}
}

// The completion of bash is tried in bash; those of other shells must name every command and flag.
func TestCompletion(t *testing.T) {
	list, err := spellings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{}
	for shell := range shells {
		out, errs, code := typed(t, "completion "+shell)
		if code != 0 || errs != "" {
			t.Fatalf("%s: code %d, %q", shell, code, errs)
		}
		scripts[shell] = out
		for _, s := range list {
			if !strings.Contains(out, s.name) {
				t.Errorf("%s does not know %s", shell, s.name)
			}
			for _, f := range s.flags {
				if !strings.Contains(out, f.Name) {
					t.Errorf("%s does not know %s --%s", shell, s.name, f.Name)
				}
			}
		}
	}
	for line, want := range map[string]string{"kloop wh": "why", "kloop trace --fol": "--follow", "kloop image lo": "load",
		"kloop help mem": "member"} {
		t.Run(line, func(t *testing.T) {
			words := strings.Fields(line)
			script := scripts["bash"] + "\nCOMP_WORDS=(" + line + ") COMP_CWORD=" + string('0'+rune(len(words)-1)) +
				"; _kloop; echo \"${COMPREPLY[@]}\""
			out, err := exec.Command("bash", "-c", script).CombinedOutput()
			if err != nil || !slices.Contains(strings.Fields(string(out)), want) {
				t.Errorf("%s completes to %q (%v), want %s", line, out, err, want)
			}
		})
	}
	if _, errs, code := typed(t, "completion fishe"); code != 2 || !strings.Contains(errs, "did you mean fish?") {
		t.Errorf("code %d, %q", code, errs)
	}
}

func TestManual(t *testing.T) {
	dir := t.TempDir()
	if _, errs, code := typed(t, "man "+dir); code != 0 {
		t.Fatal(code, errs)
	}
	for _, c := range commands() {
		text, err := os.ReadFile(filepath.Join(dir, "kloop-"+c.name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, ".") && !strings.Contains(".TH .SH .TP .B .BI .BR .nf .fi", strings.Fields(line)[0]) {
				t.Errorf("kloop-%s.1: the formatter would take %q for a request", c.name, line)
			}
		}
		if !strings.Contains(string(text), ".SH EXAMPLE\n") {
			t.Errorf("kloop-%s.1 has no example", c.name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "kloop.1")); err != nil || !strings.Contains(string(text), `.BR kloop\-why (1)`) {
		t.Errorf("kloop.1 lists not all commands: %v", err)
	}
}

// A port that is taken is answered with the flag that is for that port.
func TestAdviceNamesTheRightFlag(t *testing.T) {
	taken := &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}
	if err := advise(fmt.Errorf("%w: %w", cluster.ErrAgentPort, taken)); !strings.Contains(err.Error(), "--port") ||
		strings.Contains(err.Error(), "--listen") {
		t.Error(err)
	}
	if err := advise(taken); !strings.Contains(err.Error(), "--listen") {
		t.Error(err)
	}
}
