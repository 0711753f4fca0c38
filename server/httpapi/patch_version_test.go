package httpapi_test

import "testing"

// A document without a version has no fields that are known.
func TestPatchTakesTheVersionAway(t *testing.T) {
	w := newWorld(t)
	w.configMap("c", "1")
	const path, merge = "/api/v1/namespaces/ns/configmaps/c", "application/merge-patch+json"
	for _, of := range []struct {
		query     string
		code, say int
	}{{"", 400, 2}, {"?fieldValidation=Strict", 422, 0}, {"?fieldValidation=Ignore", 400, 0}} {
		t.Run(of.query, func(t *testing.T) {
			got := w.must("PATCH", path+of.query, `{"apiVersion":null}`, of.code, "Content-Type", merge)
			if said := got.header.Values("Warning"); len(said) != of.say {
				t.Errorf("%q: %q", of.query, said)
			}
		})
	}
}

// Jobs that nobody asked for in words that are understood leave no pods behind.
func TestNoWarningOfOrphansForWrongSelectors(t *testing.T) {
	w := newWorld(t)
	const path = "/apis/batch/v1/namespaces/ns/jobs"
	for query, say := range map[string]int{"?fieldSelector=spec.bogus%3D1": 0, "?labelSelector=a,,b": 0, "?labelSelector=a%3Db": 1,
		"?resourceVersion=x": 1, "?continue=x": 1} {
		t.Run(query, func(t *testing.T) {
			if said := w.do("DELETE", path+query, "").header.Values("Warning"); len(said) != say {
				t.Errorf("%s: %q", query, said)
			}
		})
	}
}

// TestNoWarningOfOrphansUnread: who deletes what can't be read has nothing to say of dependents.
func TestNoWarningOfOrphansUnread(t *testing.T) {
	w := newWorld(t)
	const path = "/apis/batch/v1/namespaces/ns/jobs/j"
	for _, c := range []struct {
		name, options string
		say           int
	}{
		{"plain", `{}`, 1}, {"unread", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, 0},
		{"not unread", `{"ignoreStoreReadErrorWithClusterBreakingPotential":false}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if said := w.do("DELETE", path, c.options).header.Values("Warning"); len(said) != c.say {
				t.Errorf("warnings %q", said)
			}
		})
	}
}
