package converge

import (
	"strings"
	"testing"
)

func TestOffered(t *testing.T) {
	for _, tt := range []struct{ name, message, want string }{
		{"after a colon", `plan "huge" is not offered in region eu-1; available: small, large`, "small large"},
		{"a sentence", "Version 2.2.7 is not supported. Supported versions are: 2.1.0, 2.1.1. See the docs", "2.1.0 2.1.1"},
		{"in brackets", "invalid mode huge, must be one of [fast slow]", "fast slow"},
		{"with or", "type must be one of: a, b or c", "a b c"},
		{"an error behind the word", "client has not connected, run out of available brokers to talk to: unexpected EOF", ""},
		{"an address", `Invalid response from http://www.x.y/.well-known/acme-challenge/t: 404`, ""},
		{"nothing is refused", "available: small, large", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(offered(tt.message, "huge"), " "); got != tt.want {
				t.Errorf("%q, not %q", got, tt.want)
			}
		})
	}
}
