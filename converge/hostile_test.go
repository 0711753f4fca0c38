package converge_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/rules"
	"github.com/kloop-dev/kloop/internal/states"
	"github.com/kloop-dev/kloop/kinds"
)

var everyText = flag.Bool("hostile", false, "put hostile words into each text of each state, not into some of them")

// hostile are endings of texts that would have a shell, or kubectl, do what nobody advised.
var hostile = []string{`' --server=https://evil '`, ` --token=evil`, ` && kubectl evil`, `$(evil)`, "\nevil", `","evil":"`, `/e;evil;s/`,
	": kubectl delete namespace evil"}

// TestHostileTexts puts words for a shell into what anybody may write who has no more than a few rights: what users' own kinds hold,
// messages, images, programs, annotations. No command that is advised then may have them where a shell reads them.
func TestHostileTexts(t *testing.T) {
	rows, err := states.Rows("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		list, err := states.Objects(r.Given)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range list {
			for range texts(list[i], -1, "") {
				n++
			}
		}
		for _, at := range chosen(r.Name, n) {
			for _, words := range hostile {
				for _, c := range adviceWith(t, &r, at, words) {
					if read(c) {
						t.Errorf("%s, text %d: a shell would read %q", r.Name, at, c)
					}
				}
			}
		}
	}
}

// chosen are some of the texts of a row, always the same.
func chosen(row string, n int) (list []int) {
	for i := range n {
		h := fnv.New32()
		fmt.Fprint(h, row, i)
		if *everyText || h.Sum32()%uint32(n) == 0 {
			list = append(list, i)
		}
	}
	return list
}

// adviceWith lists the commands that are advised for a row with hostile words in one text.
func adviceWith(t *testing.T, r *states.Row, at int, words string) (commands []string) {
	list, err := states.Objects(r.Given)
	if err != nil {
		t.Fatal(err)
	}
	docs, n := []string{}, 0
	for _, u := range list {
		m := 0
		for range texts(u, at-n, words) {
			m++
		}
		n += m
		data, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(data)+"\n")
	}
	set, read, err := states.World(strings.Join(docs, "---\n"))
	if err != nil {
		return nil // no server would have it
	}
	w := converge.World{Read: read, Kinds: set, Now: states.Noon, Rules: rules.All()}
	k, obj, err := r.Asked(set, read)
	if err != nil {
		return nil // it is asked for by another name
	}
	if s := w.Explain(k, obj); s != nil {
		commands = s.Gap().Commands
	}
	if rest := w.Rest(k, obj); rest != nil {
		commands = append(commands, rest.Commands...)
	}
	return commands
}

// free are the fields of built-in kinds in which a server takes any text; value is that of a variable, which has a name.
var free = []string{"message", "image", "command", "args", "value", "annotations", "log", "note", "reason"}

// texts yields the texts of an object in which anything may stand, and puts words behind the one with the number.
func texts(u *unstructured.Unstructured, at int, words string) (n []struct{}) {
	_, builtIn := builtIns.Kind(u.GroupVersionKind())
	var walk func(v any, any bool) any
	text := func(s string) string {
		n = append(n, struct{}{})
		if len(n)-1 == at {
			return s + words
		}
		return s
	}
	walk = func(v any, open bool) any {
		switch v := v.(type) {
		case string:
			if open {
				return text(v)
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i], open)
			}
		case map[string]any:
			for _, field := range sortedKeys(v) {
				value := walk(v[field], open || slices.Contains(free, field) && (field != "value" || v["name"] != nil))
				name := field
				if open && !builtIn {
					name = text(field)
				}
				delete(v, field)
				v[name] = value
			}
		}
		return v
	}
	for _, part := range []string{"spec", "status", "message", "note", "reason"} {
		if v, has := u.Object[part]; has {
			u.Object[part] = walk(v, !builtIn || part != "spec" && part != "status")
		}
	}
	return n
}

var builtIns = kinds.NewSet()

func sortedKeys(m map[string]any) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// read says that a shell, kubectl or sed reads hostile words in a command: they are outside of quotes, a field of JSON, or in a script.
func read(command string) bool {
	parts := strings.Split(command, "'")
	for i, part := range parts {
		switch {
		case !strings.Contains(part, "evil"):
		case i%2 == 0, !json.Valid([]byte(part)), strings.Contains(part, `"evil":`):
			return true
		}
	}
	return false
}
