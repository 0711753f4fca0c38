package words

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestComplaintIn: each way in which operators say that something is wrong, and those in which nothing is.
func TestComplaintIn(t *testing.T) {
	for _, tt := range []struct{ name, status, says, message string }{
		{"nothing", `{}`, "", ""},
		{"a condition", `{conditions: [{type: Ready, status: "False", reason: R, message: no such key}]}`, "is not ready", "no such key"},
		{"its reason where it has no message", `{conditions: [{type: Ready, status: "False", reason: NoKey}]}`, "is not ready", "NoKey"},
		{"the more telling of two", `{conditions: [{type: Ready, status: "False", message: a b},
			{type: Stalled, status: "True", message: c d}]}`, "is stalled", "c d"},
		{"conditions as a map", `{conditions: {ready: {status: "False", message: no such key}}}`, "is not ready", "no such key"},
		{"all is well", `{conditions: [{type: Ready, status: "True"}]}`, "", ""},
		{"paused on purpose", `{conditions: [{type: Ready, status: "False", reason: Paused}]}`, "", ""},
		{"a phase", `{phase: Failed, message: no room}`, "failed", "no room"},
		{"a phase that no list has", `{phase: BuildFailed, message: no room}`, "failed", "no room"},
		{"a good phase", `{phase: Ready}`, "", ""},
		{"a part in a list", `{parents: [{parentRef: {name: gw}, conditions: [{type: Accepted, status: "False", message: not here}]}]}`,
			"is not accepted by its parent gw", "not here"},
		{"an error", `{error: {message: no such class}}`, "has an error", "no such class"},
		{"an error in a field of its own", `{lastSyncError: connection refused}`, "is not well", "connection refused"},
		{"a plain no", `{ready: false}`, "is not ready", ""},
		{"what it waits for", `{phase: Pending, message: waits for a volume}`, "is pending", "waits for a volume"},
		{"what was", `{history: [{phase: Failed, message: no room}]}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var status map[string]any
			if err := yaml.Unmarshal([]byte(tt.status), &status); err != nil {
				t.Fatal(err)
			}
			got := ComplaintIn(map[string]any{"status": status})
			if got.Says != tt.says || got.Message != tt.message {
				t.Errorf("%q: %q, want %q: %q", got.Says, got.Message, tt.says, tt.message)
			}
		})
	}
}

// FuzzComplaintIn: whatever an operator writes is read without a panic, and what is said has a place in the status.
func FuzzComplaintIn(f *testing.F) {
	for _, seed := range []string{`{"conditions":[null,3,{"type":"Ready","status":"False"}]}`, `{"conditions":{"":{"status":"False"}}}`,
		`{"phase":["Failed"],"message":{}}`,
		`{"parents":[{"conditions":"x"}],"health":{"status":null}}`, `{"a":{"b":{"phase":"Failed"}}}`} {
		f.Add(seed, "spec says a")
	}
	f.Fuzz(func(t *testing.T, text, message string) {
		var status map[string]any
		if json.Unmarshal([]byte(text), &status) != nil {
			t.Skip()
		}
		tree := map[string]any{"spec": status, "status": status}
		if c := ComplaintIn(tree); c.Says != "" && (c.Want == "" || c.Have == "") {
			t.Errorf("%s: it %s, without a field that says so", text, c.Says)
		}
		if path, value := SpokenField(tree, message); value != "" && !strings.Contains(message, value) || strings.HasSuffix(path, ".") {
			t.Errorf("%s: field %q with the value %q", text, path, value)
		}
	})
}

func TestWrongBy(t *testing.T) {
	for _, tt := range []struct{ word, says string }{
		{"SyncFailed", "failed"}, {"PullError", "has an error"}, {"NotReady", "is not ready"}, {"MissingSecret", "lacks something"},
		{"InvalidSpec", "is not valid"}, {"NoError", ""}, {"NotFailed", ""}, {"Ready", ""}, {"", ""}, {"it has failed", ""},
		{"NodeFailure", "failed"},
	} {
		t.Run(tt.word, func(t *testing.T) {
			if got := WrongBy(tt.word); got != tt.says {
				t.Errorf("%q, want %q", got, tt.says)
			}
		})
	}
}

func TestStandsIn(t *testing.T) {
	for _, tt := range []struct {
		text, word string
		want       bool
	}{
		{"secret db not found", "db", true}, {"secret dbx not found", "db", false}, {"secret my-db", "db", false}, {"db", "db", true},
		{"adb, then db.", "db", true}, {"", "db", false}, {"a big red dog", "red dog", true},
	} {
		t.Run(tt.word+" in "+tt.text, func(t *testing.T) {
			if got := StandsIn(tt.text, tt.word); got != tt.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// TestSayingsCanBeMet: in each table the mark of a saying finds that saying, not one before it, or nobody will ever read it.
func TestSayingsCanBeMet(t *testing.T) {
	for name, table := range map[string][]Saying{"ByGroup": ByGroup, "Overheard": Overheard, "LastWords": LastWords} {
		t.Run(name, func(t *testing.T) {
			for i, s := range table {
				if s.Mark() == "" || s.Mark() != strings.ToLower(s.Mark()) || s.Advice() == "" {
					t.Errorf("%q: a mark is lower case, and has advice", s.Mark())
				}
				if got, ok := Meaning(table, strings.ReplaceAll(s.Mark(), "*", " ")); !ok || got != table[i] && got.Advice() != s.Advice() {
					t.Errorf("%q is met by %q before it", s.Mark(), got.Mark())
				}
			}
		})
	}
}

func TestDomain(t *testing.T) {
	for group, want := range map[string]string{"": "", "apps": "apps", "keda.sh": "keda.sh", "a.cluster.x-k8s.io": "x-k8s.io"} {
		if got := Domain(group); got != want {
			t.Errorf("%q of %q, want %q", got, group, want)
		}
	}
}

func TestList(t *testing.T) {
	if got := fmt.Sprint(List([]string{"a", "b"}, 2), "; ", List([]string{"a", "b", "c", "d"}, 2)); got != "a, b; a, b and 2 more" {
		t.Error(got)
	}
}
