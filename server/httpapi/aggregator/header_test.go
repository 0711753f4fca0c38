package aggregator

import "testing"

func TestHeaderName(t *testing.T) {
	for key, want := range map[string]string{"scopes": "scopes", "a.example/b": "a.example%2Fb",
		"a:b=c@d%e f": "a%3Ab%3Dc%40d%25e%20f", "é": "%C3%A9"} {
		t.Run(key, func(t *testing.T) {
			if got := headerName(key); got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
		})
	}
}
