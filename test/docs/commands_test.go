package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Commands in blocks of pages, to where their explanation begins: two blanks, or #.
var (
	shown    = regexp.MustCompile(`^\s*(?:[a-z]*\$\s+)?((?:sudo )?(?:\./|scripts/)?(?:kloop|kubectl|go|make|scripts/\w+) .*)`)
	remark   = regexp.MustCompile(`\s+#.*|\s{2,}[^-\s].*`)
	testName = regexp.MustCompile(`^([\w/]+_test\.go):(Test\w+)$`)
)

// shownIn are the commands that a page shows in its blocks, each once.
func shownIn(page string) (list []string) {
	fenced, told := false, false
	for line := range strings.Lines(page) {
		if mark, is := strings.CutPrefix(strings.TrimSpace(line), "```"); is {
			fenced = !fenced
			told = fenced && mark == ""
			continue
		}
		if m := shown.FindStringSubmatch(line); told && m != nil {
			if c := strings.Join(strings.Fields(remark.ReplaceAllString(m[1], "")), " "); !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	return list
}

// scene is what the pages' commands are about: one cluster for all.
const scene = `
export KUBECONFIG=$HOME/kubeconfig DATA=$HOME/clusters/pages/1
kloop create pages --sim-nodes 3
kubectl config set-context kloop-pages --namespace shop
kubectl create namespace shop
kubectl create deployment web --image=nginx:1
kubectl run web --image=nginx:1
kubectl run db --image=db:1
kubectl rollout status deployment web
kubectl create deployment web --image=nginx:3 --dry-run=client -o yaml >change.yaml
cat >crd.yaml <<'EOF'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec: {group: example.com, scope: Namespaced, names: {plural: as, kind: A},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}
EOF
kubectl apply -f crd.yaml
kubectl set image deployment web nginx=nginx:2
# 3 is an answer: something is not what it should be.
line() { at=$1; shift; local code=0; "$@" || code=$?; [ $code = 0 ] || [ $code = 3 ] ||
	{ echo "FAILED: $at: exit code $code" >&2; exit 1; }; }
`

// Every command that the pages show is run on one cluster, as the table says, or another test runs it, which the table names. Blocks marked
// sh are run by TestPages.
func TestShownCommands(t *testing.T) {
	table, err := os.ReadFile("testdata/commands.tsv")
	if err != nil {
		t.Fatal(err)
	}
	how, kept := map[[2]string]string{}, map[[2]string]bool{}
	for line := range strings.Lines(string(table)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 3 {
			t.Fatalf("%q has not three columns", line)
		}
		how[[2]string{parts[0], parts[1]}] = parts[2]
	}
	var run strings.Builder
	run.WriteString(scene)
	for _, pattern := range []string{"../../docs/*.md", "../../docs/start/*.md", "../../docs/monitoring/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%v, %v", pages, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range shownIn(string(text)) {
				key := [2]string{filepath.Base(page), c}
				kept[key] = true
				switch as, known := how[key]; {
				case !known:
					t.Errorf("%s shows %q: say in testdata/commands.tsv how it is run, or which test runs it", page, c)
				case testName.MatchString(as):
					m := testName.FindStringSubmatch(as)
					if code, err := os.ReadFile("../../" + m[1]); err != nil || !strings.Contains(string(code), "func "+m[2]+"(") {
						t.Errorf("%s: %q: there is no test %s", page, c, as)
					}
				default:
					if as == "=" {
						as = c
					}
					at := strings.ReplaceAll(key[0]+": "+c, "'", "’")
					fmt.Fprintf(&run, "echo '--- %s'\nnow() { %s; }\nline '%s' now\n", at, as, at)
				}
			}
		}
	}
	for key := range how {
		if !kept[key] {
			t.Errorf("%s does not show %q any more", key[0], key[1])
		}
	}
	if t.Failed() {
		return
	}
	haveKubectl(t)
	runPage(t, program(t), script("the pages", []block{{0, false, run.String()}}), false)
}

// What is a command in a page, and what is not.
func TestShownIn(t *testing.T) {
	page := "```\n$ kloop why   all of it\nfirst$  sudo ./kloop install   # now\nkloop up   --a 1,2 --b   # c\nkloop why\nis kloop\n```\n" +
		"```yaml\nkloop x\n```\nkloop out\n```sh\nkloop run elsewhere\n```\n"
	want := []string{"kloop why", "sudo ./kloop install", "kloop up --a 1,2 --b"}
	if got := shownIn(page); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
