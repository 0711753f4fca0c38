package cli

import "testing"

// The command that undo offers can be pasted, whatever stands in its words.
func TestPasted(t *testing.T) {
	got := pasted([]string{"kloop", "undo", "--since", "2026-01-02 03:04", "deploy/web", "-n", "it's"})
	if want := `kloop undo --since '2026-01-02 03:04' deploy/web -n 'it'\''s'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
