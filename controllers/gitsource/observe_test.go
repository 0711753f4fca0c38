package gitsource

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFailedFetchRests asks a repository that is out of reach at the source's interval, whatever wakes the loop: git says how many
// milliseconds it tried, which the status tells, and a status that changes wakes the loop.
func TestFailedFetchRests(t *testing.T) {
	at, asked := time.Unix(1e9, 0), 0
	st, spec := &state{}, Spec{URL: "https://example.invalid/x.git", Interval: metav1.Duration{Duration: time.Minute}}
	look := func() string {
		reason, err := st.observe(spec, func() time.Time { return at }, func() (string, error) {
			asked++
			if asked > 2 {
				return "", nil
			}
			return "FetchFailed", fmt.Errorf("failed to connect after %d ms", asked)
		})
		return fmt.Sprint(reason, " ", err)
	}
	first := look()
	at = at.Add(59 * time.Second)
	if again := look(); again != first || asked != 1 {
		t.Errorf("%s, then %s after %d fetches", first, again, asked)
	}
	at = at.Add(time.Second)
	if again := look(); again != "FetchFailed failed to connect after 2 ms" {
		t.Errorf("after a minute: %s", again)
	}
	spec.Path = "other"
	if again := look(); again != " <nil>" || asked != 3 {
		t.Errorf("with another spec: %s after %d fetches", again, asked)
	}
}
