package aoscx

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Transport reaches a switch over HTTPS. Switches sign their certificates themselves: with a fingerprint, the SHA-256 of the certificate
// in hex, exactly that one is believed; without, one that the system's authorities vouch for.
func Transport(fingerprint string) http.RoundTripper {
	t := &http.Transport{ResponseHeaderTimeout: 20 * time.Second, TLSHandshakeTimeout: 10 * time.Second, MaxConnsPerHost: 1,
		IdleConnTimeout: time.Minute, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if fingerprint != "" {
		want := plainHex(fingerprint)
		t.TLSClientConfig.InsecureSkipVerify = true // VerifyPeerCertificate does more: it takes one certificate
		t.TLSClientConfig.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 {
				return errors.New("the switch shows no certificate")
			}
			sum := sha256.Sum256(raw[0])
			if have := hex.EncodeToString(sum[:]); have != want {
				return fmt.Errorf("the switch's certificate has the fingerprint %s, not the one in the spec: is it another switch?", have)
			}
			return nil
		}
	}
	return t
}

func plainHex(text string) string { return strings.ToLower(strings.ReplaceAll(text, ":", "")) }
