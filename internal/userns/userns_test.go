package userns

import "testing"

func TestEverybody(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":                                   true,
		"         0       1000          1\n         1     100000      65536\n": false,
		"         0     100000 4294867295\n":                                   false,
		"":                                                                     false, // nobody was mapped yet
	} {
		if everybody(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}
