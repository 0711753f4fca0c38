package server

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestOddToken: what is wrong with a token is told in upstream's words, down to the name of the type.
func TestOddToken(t *testing.T) {
	for token, want := range map[string]string{
		`{"v":1}`: "cannot unmarshal number into Go struct field continueToken.v of type string",
		`{}`:      "server does not recognize this encoded version ",
	} {
		t.Run(token, func(t *testing.T) {
			if _, err := parseToken(base64.RawURLEncoding.EncodeToString([]byte(token))); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}
