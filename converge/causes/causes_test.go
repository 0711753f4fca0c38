package causes

import (
	"testing"
)

func TestMainReason(t *testing.T) {
	for text, want := range map[string]string{
		"0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu": "Insufficient cpu",
		"0/1 nodes are available: 1 Too many pods":                                        "Too many pods",
		"no nodes available to schedule pods":                                             "no nodes available to schedule pods",
		"0/3 nodes are available: odd":                                                    "0/3 nodes are available: odd",
	} {
		t.Run(text, func(t *testing.T) {
			if got := mainReason(text); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		})
	}
}

func TestPullReason(t *testing.T) {
	for text, want := range map[string]string{
		`failed to resolve reference "x": not found`: "the registry does not have it",
		"pull access denied":                         "the registry wants credentials",
		"pull access denied, repository does not exist or may require authorization": "the registry does not have it, or wants credentials",
		"http: server gave HTTP response to HTTPS client":                            "the registry speaks plain HTTP",
		"write x: no space left on device":                                           "the node's disk is full",
		"dial tcp 127.0.0.1:1: connect: connection refused":                          "the registry does not answer",
		"lookup registry.invalid: no such host":                                      "the registry's name is not known",
		"something else":                                                             "",
		"no match for platform in manifest: not found":                               "there is none for the node's platform",
		"tls: failed to verify certificate: x509: unknown authority\n":               "the registry's certificate is not trusted",
	} {
		t.Run(text, func(t *testing.T) {
			if got, _ := whyNoPull("x", text); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		})
	}
}
