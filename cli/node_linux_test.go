package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const joinedConfig = `apiVersion: v1
kind: Config
current-context: kloop
clusters: [{name: kloop, cluster: {server: "https://10.0.0.1:6443"}}]
users: [{name: node, user: {client-certificate: kubelet-client-current.pem, client-key: kubelet-client-current.pem}}]
contexts: [{name: kloop, context: {cluster: kloop, user: node}}]
`

// A machine that has joined goes on with what it has when it starts again with --server alone. One that never did, that did not come to
// the end of it, or that is to join another cluster needs a token.
func TestNodeStartsAgainWithoutToken(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		certificate  bool
		server       string
		wants        string // in the refusal; "": none
	}{
		{"joined", joinedConfig, true, "https://10.0.0.1:6443", ""},
		{"never joined", "", false, "https://10.0.0.1:6443", "--server needs --token and --ca-hash"},
		{"got no certificate", joinedConfig, false, "https://10.0.0.1:6443", "--server needs --token and --ca-hash"},
		{"joined another", joinedConfig, true, "https://10.0.0.2:6443", "has joined https://10.0.0.1:6443"},
		{"what it kept is damaged", "{", true, "https://10.0.0.1:6443", "read how to reach the server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			keys := filepath.Join(dir, "pki")
			files := map[string]string{}
			if tt.config != "" {
				files["kubelet.conf"] = tt.config
			}
			if tt.certificate {
				files["kubelet-client-current.pem"] = "pem"
			}
			if err := os.Mkdir(keys, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(keys, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			err := meantForNode(stdio{out: &out, err: &out}, []string{"--data-dir", dir, "--server", tt.server})
			switch {
			case tt.wants == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case tt.wants != "" && (err == nil || !strings.Contains(err.Error(), tt.wants)):
				t.Errorf("%v, want %q", err, tt.wants)
			}
		})
	}
}
