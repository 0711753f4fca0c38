package past

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/trail"
)

func object(t *testing.T, text string) json.RawMessage {
	t.Helper()
	if text == "" {
		return nil
	}
	doc, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func state(t *testing.T, text string) map[string]any {
	t.Helper()
	out, err := Tree(object(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFields(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", "spec: {a: 1}", "spec: {a: 1}", ""},
		{"a value", "spec: {a: 1}", "spec: {a: 2}", "spec.a: 1 → 2"},
		{"large numbers", "spec: {a: 9007199254740993}", "spec: {a: 9007199254740992}", "spec.a: 9007199254740993 → 9007199254740992"},
		{"a new part", "spec: {}", "spec: {a: {b: 1}}", `spec.a: (none) → {"b":1}`},
		{"a label with a dot", "metadata: {labels: {x/y.z: a}}", "metadata: {labels: {x/y.z: b}}", "metadata.labels[x/y.z]: a → b"},
		{"elements by name, in any order", "spec: {c: [{name: a, i: 1}, {name: b, i: 1}]}", "spec: {c: [{name: b, i: 2}, {name: a, i: 1}]}",
			"spec.c[b].i: 1 → 2"},
		{"an element more", "spec: {c: [{name: a}]}", "spec: {c: [{name: a}, {name: b}]}", `spec.c[b]: (none) → {"name":"b"}`},
		{"a list without names", "spec: {args: [x]}", "spec: {args: [x, z]}", `spec.args: ["x"] → ["x","z"]`},
		{"names twice", "spec: {c: [{name: a}, {name: a}]}", "spec: {c: [{name: a}]}", `spec.c: [{"name":"a"},{"name":"a"}] → [{"name":"a"}]`},
		{"what the server keeps", "metadata: {resourceVersion: 1, generation: 1}", "metadata: {resourceVersion: 2, generation: 2}", ""},
		{"created", "", "spec: {a: 1}", "spec.a: (none) → 1"},
		{"null", "spec: {a: null}", "spec: {}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range Fields(state(t, c.before), state(t, c.after)) {
				got = append(got, f.Text())
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("%s: %s", c.name, text)
			}
		})
	}
}

// TestThereAndBack: what changed and then changed back is no field of both changes together.
func TestThereAndBack(t *testing.T) {
	field := func(path string, before, after any) *Step {
		return &Step{Fields: []Field{{Path: path, Old: before, New: after}}}
	}
	full := map[string]any{"a": "b"}
	got := together([]*Step{field("metadata.annotations", nil, full), field("spec.a", 1.0, 2.0), field("metadata.annotations", full, nil),
		field("spec.a", 2.0, 3.0)})
	if len(got.Fields) != 1 || got.Fields[0].Text() != "spec.a: 1 → 3" {
		t.Errorf("%+v, want spec.a alone", got.Fields)
	}
}

// TestPut writes every difference of two states into the second, which makes it the first.
func TestPut(t *testing.T) {
	states := []string{"spec: {a: 1, c: [{name: a, i: 1}, {name: b}]}", "spec: {c: [{name: b, i: 4}]}", "spec: {a: {b: {c: 1}}}",
		"metadata: {labels: {x/y.z: a}}\nspec: {c: [{name: a, p: [{name: h}]}]}", "spec: {a: [1, 2]}"}
	for _, a := range states {
		for _, b := range states {
			was, now := state(t, a), state(t, b)
			var v any = now
			for _, f := range Fields(was, state(t, b)) {
				v = put(v, f.steps, f.Old)
			}
			if left := Fields(was, v.(map[string]any)); len(left) > 0 {
				t.Errorf("%s from %s leaves %v", a, b, left)
			}
		}
	}
}

var web = Object{APIVersion: "apps/v1", Kind: "Deployment", Resource: "deployments.apps", Namespace: "a", Name: "web"}

// did is a step of a person, with its fields.
func did(t *testing.T, rev int64, o Object, before, after string) Step {
	t.Helper()
	s := Step{Object: o, Rev: rev, At: time.Unix(rev, 0), Verb: trail.Changed, By: "kubectl", Root: &Root{Rev: rev},
		Before: object(t, before), After: object(t, after)}
	switch {
	case before == "":
		s.Verb = trail.Created
	case after == "":
		s.Verb = trail.Deleted
	default:
		s.Fields = Fields(state(t, before), state(t, after))
	}
	return s
}

func TestUndo(t *testing.T) {
	v := func(image string, replicas int) string {
		return fmt.Sprintf("metadata: {name: web, uid: u}\nspec: {image: %s, replicas: %d}\nstatus: {ready: 1}", image, replicas)
	}
	pod := Object{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: "a", Name: "web"}
	ns := Object{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces", Name: "a"}
	claim := Object{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespace: "a", Name: "data"}
	secret := Object{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespace: "a", Name: "s"}
	for _, c := range []struct {
		name  string
		steps []Step
		now   string
		want  string
	}{
		{"a change", []Step{did(t, 1, web, v("x", 1), v("w", 1))}, v("w", 1), "restore [spec.image: w → x] []"},
		{"two changes of a field", []Step{did(t, 1, web, v("x", 1), v("w", 1)), did(t, 2, web, v("w", 1), v("z", 1))}, v("z", 1),
			"restore [spec.image: z → x] []"},
		{"there and back", []Step{did(t, 1, web, v("x", 1), v("w", 1)), did(t, 2, web, v("w", 1), v("x", 1))}, v("x", 1), "nothing"},
		{"another field changed since", []Step{did(t, 1, web, v("x", 1), v("w", 1))}, v("w", 7), "restore [spec.image: w → x] []"},
		{"changed again since", []Step{did(t, 1, web, v("x", 1), v("w", 3))}, v("w", 7),
			"restore [spec.image: w → x] [spec.replicas: 7 → 1]"},
		{"all changed again since", []Step{did(t, 1, web, v("x", 1), v("w", 1))}, v("z", 1),
			"refused: all that was changed has been changed again since"},
		{"made", []Step{did(t, 1, web, "", v("x", 1))}, v("x", 1), "delete [] []"},
		{"made and gone", []Step{did(t, 1, web, "", v("x", 1)), did(t, 2, web, v("x", 1), "")}, "", "nothing"},
		{"deleted", []Step{did(t, 1, web, v("x", 1), "")}, "", "create [] []"},
		{"deleted, and another is there", []Step{did(t, 1, web, v("x", 1), "")}, "metadata: {uid: other}",
			"refused: it was deleted, and another one of its name is there now"},
		{"going", []Step{did(t, 1, web, v("x", 1), v("w", 1))}, "metadata: {deletionTimestamp: now}",
			"refused: it is being deleted: undo that when it is gone"},
		{"a pod of a set", []Step{did(t, 1, pod, "metadata: {ownerReferences: [{controller: true}]}", "")}, "", "nothing"},
		{"a volume", []Step{did(t, 1, claim, "spec: {}", "")}, "",
			"refused: a new one would be empty: its data is gone, or on a volume that was retained. Bind that by hand"},
		{"a value that was not kept", []Step{did(t, 1, secret, "data: {t: a2VwdC1vdXQ6MQ==}", "data: {t: a2VwdC1vdXQ6Mg==}")},
			"data: {t: eA==}", "refused: " + notKept},
		{"a value that was kept", []Step{did(t, 1, secret, "data: {t: eQ==}", "data: {t: eA==}")}, "data: {t: eA==}",
			"restore [data.t: (secret) → (secret)] []"},
		{"status alone", []Step{did(t, 1, web, "status: {a: 1}", "status: {a: 2}")}, "status: {a: 2}", "nothing"},
		{"a namespace", []Step{did(t, 1, ns, "metadata: {name: a}", "")}, "", "create [] []"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := Undoing(c.steps, ByPerson, func(Object) (map[string]any, error) { return state(t, c.now), nil })
			if err != nil {
				t.Fatal(err)
			}
			got := "nothing"
			if len(list) > 0 {
				u := list[0]
				if got = fmt.Sprintf("%s %v %v", u.Action, texts(u.Fields), texts(u.Conflicts)); u.Refused != "" {
					got = "refused: " + u.Refused
				}
			}
			if got != c.want {
				t.Errorf("%s: %s", c.name, got)
			}
		})
	}
}

// Who changed an object that is removed because its creation is taken back is named: what they did is lost.
func TestUndoSince(t *testing.T) {
	mine := did(t, 1, web, "", "spec: {a: 1}")
	mine.By = "helm"
	person, program := did(t, 2, web, "spec: {a: 1}", "spec: {a: 2}"), did(t, 3, web, "spec: {a: 2}", "spec: {a: 3}")
	person.User, program.Program = "mary", true
	list, err := Undoing([]Step{mine, person, program}, func(s *Step) bool { return s.By == "helm" },
		func(Object) (map[string]any, error) { return state(t, "spec: {a: 3}"), nil })
	if err != nil || len(list) != 1 || list[0].Action != Delete || len(list[0].Warnings) != 1 ||
		!strings.HasPrefix(list[0].Warnings[0], "mary (kubectl) changed it since") {
		t.Errorf("%+v, %v", list, err)
	}
}

// A person may use a service account by hand; an operator does not.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		name  string
		write trail.Write
		want  bool
	}{
		{"a person", trail.Write{User: "mary", Agent: "kubectl/v1.37.2"}, false},
		{"a pipeline", trail.Write{User: "system:serviceaccount:a:deployer", Agent: "kubectl/v1.37.2"}, false},
		{"an operator", trail.Write{User: "system:serviceaccount:a:operator", Agent: "manager/v0.1"}, true},
		{"a node's identity", trail.Write{User: "system:node:a", Agent: "kubectl/v1.37.2"}, true},
		{"a loop", trail.Write{User: "system:serviceaccount:a:x", Agent: "kubectl", Cause: &trail.Cause{Loop: "garbage-collector"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := part(&c.write); got != c.want {
				t.Errorf("%+v: %v", c.write, got)
			}
		})
	}
}

func texts(list []Field) (out []string) {
	for i := range list {
		out = append(out, list[i].Text())
	}
	return out
}

// TestUndoSwept brings back what a namespace's deletion swept away, in the order in which it can be made, and leaves what others
// make.
func TestUndoSwept(t *testing.T) {
	of := func(kind, resource, ns, name string) Object {
		return Object{APIVersion: "v1", Kind: kind, Resource: resource, Namespace: ns, Name: name}
	}
	swept := func(rev int64, o Object, before string) Step {
		s := did(t, rev, o, before, "")
		s.Program, s.By, s.Root = true, "namespace", &Root{Rev: 1}
		return s
	}
	steps := []Step{
		did(t, 1, of("Namespace", "namespaces", "", "a"), "metadata: {name: a}", ""),
		swept(2, of("Pod", "pods", "a", "web-1"), "metadata: {ownerReferences: [{controller: true}]}"),
		swept(3, web, "metadata: {uid: u, finalizers: [x]}\nspec: {replicas: 1}"),
		swept(4, of("ConfigMap", "configmaps", "a", "c"), "data: {a: b}"),
		swept(5, of("ReplicaSet", "replicasets.apps", "a", "web-1"), "metadata: {}"),
	}
	other := swept(6, of("ConfigMap", "configmaps", "b", "unrelated"), "data: {}")
	other.Root = &Root{Rev: 99}
	list, err := Undoing(append(steps, other), ByPerson, func(Object) (map[string]any, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range list {
		got = append(got, u.Action+" "+u.Object.Short())
		if u.Body["status"] != nil || lookup(u.Body, meta("uid")) != nil || lookup(u.Body, meta("finalizers")) != nil {
			t.Errorf("%s is made with %v", u.Object.Short(), u.Body)
		}
	}
	if want := []string{"create namespace/a", "create configmap/c", "create deployment/web"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestSeats lets a few ask at a time; who gives up while it waits gets its context's error, and keeps nobody out.
func TestSeats(t *testing.T) {
	var d Desk
	var leave []func()
	for range readers {
		l, err := d.sit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, err := d.sit(gone); err == nil {
		t.Error("there is a seat too many")
	}
	leave[0]()
	if _, err := d.sit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"10m": "2026-05-04T09:50:00Z", "09:30": "2026-05-04T09:30:00Z",
		"23:00:01":         "2026-05-03T23:00:01Z",
		"2026-05-01 01:02": "2026-05-01T01:02:00Z", "2026-05-04T12:00:00+05:00": "2026-05-04T07:00:00Z"} {
		t.Run(text, func(t *testing.T) {
			got, err := When(text, now)
			if err != nil || got.UTC().Format(time.RFC3339) != want {
				t.Errorf("%s: %v, %v", text, got, err)
			}
		})
	}
	for _, text := range []string{"", "soon", "-5m", "0s", "2027-01-01T00:00:00Z", "25:00"} {
		if got, err := When(text, now); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// What a server says of times holds in its reader's zone, too.
func TestSpanZone(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("away", -5*3600))
	got := Span(history.Span{Oldest: at, Breaks: []history.Break{{From: at, To: at.Add(time.Hour)}}}, at.Add(-time.Hour))
	want := []string{"nothing is known of before 2026-01-02T08:04:05Z",
		"not all is known from 2026-01-02T08:04:05Z to 2026-01-02T09:04:05Z: the server did not run, or was behind"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
