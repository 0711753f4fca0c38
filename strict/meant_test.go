package strict

import "testing"

func TestMeant(t *testing.T) {
	known := []string{"network", "nodePorts", "issuer"}
	for word, want := range map[string]string{"netwrok": "; did you mean network?", "nodeports": "; did you mean nodePorts?",
		"colour": "", "isuer": "; did you mean issuer?"} {
		t.Run(word, func(t *testing.T) {
			if got := Meant(word, known); got != want {
				t.Errorf("%s: %q, want %q", word, got, want)
			}
		})
	}
}
