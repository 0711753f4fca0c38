package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Detached signs a text with a bootstrap token: a JWS by HMAC with SHA-256 (RFC 7515) without the text, which whoever
// checks it has.
func Detached(text, id, secret string) (string, error) {
	header, err := json.Marshal(jwsHeader{"HS256", id})
	if err != nil {
		return "", err
	}
	head := base64.RawURLEncoding.EncodeToString(header)
	return head + ".." + detachedMAC(head, text, secret), nil
}

// SignedBy says that the signature of the text was made with the bootstrap token.
func SignedBy(signature, text, id, secret string) bool {
	parts := strings.Split(signature, ".")
	if len(parts) != 3 || parts[1] != "" {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[0])
	var h jwsHeader
	if err != nil || json.Unmarshal(data, &h) != nil || h != (jwsHeader{"HS256", id}) {
		return false
	}
	return hmac.Equal([]byte(parts[2]), []byte(detachedMAC(parts[0], text, secret)))
}

type jwsHeader struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
}

func detachedMAC(head, text, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(head + "." + base64.RawURLEncoding.EncodeToString([]byte(text))))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
