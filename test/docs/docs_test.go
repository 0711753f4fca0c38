package docs

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/node/runtime"
	"github.com/kloop-dev/kloop/test/need"
)

// pages are for people by what they want.
const pages = "../../docs/start"

// TestMain lets the test's own binary stand in for kloop.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kloop" {
		os.Exit(cli.Main(os.Args))
	}
	code := m.Run()
	if made {
		dir, _ := programs()
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// A block is one of commands in a page.
type block struct {
	line int
	root bool
	text string
}

// blocks finds them.
func blocks(page string) (list []block, err error) {
	var in *block
	fenced := false
	for i, line := range strings.Split(page, "\n") {
		mark, is := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case is && fenced:
			if in != nil {
				list = append(list, *in)
			}
			in, fenced = nil, false
		case is:
			fenced = true
			if mark == "sh" || mark == "sh root" {
				in = &block{line: i + 2, root: mark == "sh root"}
			} else if strings.HasPrefix(mark, "sh") {
				return nil, fmt.Errorf("line %d: %q: say sh, or sh root", i+1, mark)
			}
		case in != nil:
			in.text += line + "\n"
		}
	}
	if fenced {
		return nil, errors.New("a block does not end")
	}
	return list, nil
}

// script has a shell run blocks, and say at which line of the page a command failed.
func script(name string, list []block) string {
	var b strings.Builder
	b.WriteString("set -Eeuo pipefail\ntrap 'echo \"FAILED: $at: $BASH_COMMAND\" >&2' ERR\n")
	for _, k := range list {
		fmt.Fprintf(&b, "at='%s, the block at line %d'\necho \"--- $at\"\n%s", name, k.line, k.text)
	}
	return b.String()
}

func TestPages(t *testing.T) {
	haveKubectl(t)
	found, err := filepath.Glob(pages + "/*.md")
	if err != nil || len(found) < 5 {
		t.Fatalf("pages %v, %v", found, err)
	}
	found = append(found, "../../README.md")
	bin := program(t)
	for _, page := range found {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		list, err := blocks(string(text))
		if err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		name := filepath.Base(page)
		var plain, root []block
		for _, k := range list {
			if k.root {
				root = append(root, k)
			} else {
				plain = append(plain, k)
			}
		}
		if len(plain) > 0 {
			t.Run(name, func(t *testing.T) { runPage(t, bin, script(name, plain), name == "README.md") })
		}
		if len(root) > 0 {
			t.Run(name+"/root", func(t *testing.T) {
				need.BeRoot(t)
				need.Have(t, need.Containerd, runtime.Available(runtime.Config{}))
				runPage(t, bin, script(name, root), false)
			})
		}
	}
}

// haveKubectl skips a test where there is no kubectl.
func haveKubectl(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		_, err = os.Stat("../../bin/kubectl")
		need.Have(t, need.Kubectl, err)
	}
}

// programs is the directory of kloop, once a test asked for it.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kloop-pages")
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return dir, err
	}
	return dir, putProgram(self, filepath.Join(dir, "kloop"))
})

// program is the directory in which kloop is.
func program(t *testing.T) string {
	t.Helper()
	made = true
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// made says that there is such a directory.
var made bool

// putProgram makes kloop of this test, which is one, or compiles it where the test was linked with libraries, as with cgo: a page
// puts the program into an image that has none.
func putProgram(self, to string) error {
	f, err := elf.Open(self)
	if err != nil {
		return err
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) == 0 {
		return exec.CommandContext(context.Background(), "cp", self, to).Run()
	}
	cmd := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-w", "-o", to, "../..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// runPage runs a script as a person with an empty home would, in an empty directory, and ends what it leaves behind.
func runPage(t *testing.T, bin, text string, readme bool) {
	home := t.TempDir()
	beside, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH") + ":" + beside,
		"KLOOP_CLUSTERS=" + filepath.Join(home, "clusters"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8"}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), env, &out, &out
	if readme {
		clone(t, cmd.Dir, bin)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.Cancel, cmd.WaitDelay = end, 30*time.Second
	err = cmd.Run()
	if err != nil {
		t.Errorf("%v\n%s", err, &out)
		_ = end() // what the page's own last lines would have ended
	}
	again := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bin, "kloop"), "delete", "--all")
	again.Env = env
	if said, err := again.CombinedOutput(); err != nil {
		t.Errorf("delete what is left: %v\n%s", err, said)
	}
}

// clone puts into a directory what the README's commands need of a clone that was built.
func clone(t *testing.T, dir, bin string) {
	t.Helper()
	examples, err := filepath.Abs("../../examples")
	if err == nil {
		err = errors.Join(os.Symlink(bin, filepath.Join(dir, "bin")), os.Symlink(examples, filepath.Join(dir, "examples")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBlocks: what a page may hold, and that a command which fails is told with its line.
func TestBlocks(t *testing.T) {
	page := "# A\n\n```sh\ntrue\n```\n\n```yaml\na: b\n```\n```sh root\nid\n```\n"
	list, err := blocks(page)
	if err != nil || len(list) != 2 || list[0] != (block{4, false, "true\n"}) || list[1] != (block{11, true, "id\n"}) {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, bad := range []string{"```sh\ntrue\n", "```shell\ntrue\n```\n"} {
		if _, err := blocks(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	text := script("a.md", []block{{4, false, "x() { false | cat; }\nx\n"}})
	out, err := exec.CommandContext(t.Context(), "bash", "-c", text).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "FAILED: a.md, the block at line 4: ") {
		t.Errorf("%v: %s", err, out)
	}
}
