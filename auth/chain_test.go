package auth

import (
	"context"
	"testing"
)

type fixed struct {
	d   Decision
	why string
}

func (f fixed) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return f.d, f.why, nil
}

// All authorizers without an opinion are heard, by name where they have one; of one that decides, only what it says itself.
func TestChainReasons(t *testing.T) {
	for _, c := range []struct {
		name  string
		chain Chain
		d     Decision
		want  string
	}{
		{"nobody decides", Chain{fixed{NoOpinion, "a"}, fixed{NoOpinion, ""}, fixed{NoOpinion, "b"}}, NoOpinion, "a\nb"},
		{"by name", Chain{Named{"node", fixed{NoOpinion, "a"}}, Named{"rbac", fixed{NoOpinion, ""}}, Named{"hook", fixed{NoOpinion, "b"}}},
			NoOpinion, "node: a\nhook: b"},
		{"one allows", Chain{Named{"node", fixed{NoOpinion, "a"}}, Named{"rbac", fixed{Allow, "b"}}}, Allow, "b"},
		{"one denies", Chain{Named{"node", fixed{NoOpinion, "a"}}, Named{"hook", fixed{Deny, "b"}}}, Deny, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d, why, err := c.chain.Authorize(t.Context(), &Attributes{}); d != c.d || why != c.want || err != nil {
				t.Errorf("got %v %q %v", d, why, err)
			}
		})
	}
}
