package packed

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	words := []string{"spec", "the name of the thing that is meant here, ", "status", strings.Repeat("ab", 40), "\x00", "version"}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var text []byte
		for len(text) < rng.IntN(10000) {
			text = append(text, words[rng.IntN(len(words))]...)
			if len(text) > 40 && rng.IntN(4) == 0 {
				from := rng.IntN(len(text) - 30)
				text = append(text, text[from:from+rng.IntN(min(len(text)-from, 500))]...)
			}
		}
		folded := Fold(text)
		got, err := Unfold(folded)
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("seed %d: %d bytes became %d, %v", seed, len(text), len(got), err)
		}
		if len(text) > 2000 && len(folded) > len(text)/2 {
			t.Errorf("seed %d: %d bytes are %d when folded", seed, len(text), len(folded))
		}
	}
}

// A damaged file is an error, and takes no memory.
func TestUnfoldGarbage(t *testing.T) {
	text := []byte(strings.Repeat("the name of the thing that is meant here, or another one; ", 50))
	folded := Fold(text)
	for at := range folded {
		for _, b := range []byte{0, 0x7f, 0xff, folded[at] + 1} {
			bad := bytes.Clone(folded)
			bad[at] = b
			if out, _ := Unfold(bad); len(out) > maxText+len(bad) {
				t.Fatalf("byte %d as %d: %d bytes", at, b, len(out))
			}
		}
		_, _ = Unfold(folded[:at])
	}
	for _, bad := range [][]byte{nil, {0x80}, {1}, {1, 0, 5, 0}, {2, 0, 0}} {
		if _, err := Unfold(bad); err == nil {
			t.Errorf("%v is a folded text", bad)
		}
	}
}

func TestPack(t *testing.T) {
	want := map[string]string{"description": "must be the one, the \n\n other", "type": strings.Repeat("long ", 1000)}
	file, err := Pack(want)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := Unpack(file, &got); err != nil || got["type"] != want["type"] || got["description"] != want["description"] {
		t.Errorf("%v, %v", got, err)
	}
	if err := Unpack(file[:len(file)/2], &got); err == nil {
		t.Error("half a file was read")
	}
}
