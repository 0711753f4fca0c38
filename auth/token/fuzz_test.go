package token

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// lastBit changes a bit of the text that does not belong to the signature any more.
func lastBit(text string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	end := len(text) - 1
	return text[:end] + string(digits[strings.IndexByte(digits, text[end])^1])
}

// FuzzVerify feeds all manner of text: nothing but the one good token may pass, and nothing may panic.
func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	tr, err := w.ask(authenticationv1.TokenRequestSpec{})
	if err != nil {
		f.Fatal(err)
	}
	good := tr.Status.Token
	parts := strings.Split(good, ".")
	for _, s := range []string{"", ".", "..", good, parts[0] + "." + parts[1] + ".", parts[1] + "." + parts[1] + "." + parts[2],
		"eyJhbGciOiJub25lIn0." + parts[1] + ".", good + "=", good + "A", lastBit(good)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _, ours, err := w.Verify(text, w.read, w.Audiences())
		if ours && err == nil && text != good {
			t.Errorf("%q was believed", text)
		}
	})
}
