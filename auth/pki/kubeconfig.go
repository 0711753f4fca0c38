package pki

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
)

// Kubeconfig renders a client configuration with one cluster, user and context, all named kloop. ca, cert and
// key are PEM. It is plain text rather than marshalled: it is on the path of every start.
func Kubeconfig(server string, ca, cert, key []byte) []byte {
	b64 := base64.StdEncoding.EncodeToString
	var b bytes.Buffer
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Config\nclusters:\n- name: kloop\n  cluster:\n")
	fmt.Fprintf(&b, "    server: %s\n    certificate-authority-data: %s\n", strconv.Quote(server), b64(ca))
	fmt.Fprintf(&b, "users:\n- name: kloop\n  user:\n")
	fmt.Fprintf(&b, "    client-certificate-data: %s\n    client-key-data: %s\n", b64(cert), b64(key))
	fmt.Fprintf(&b, "contexts:\n- name: kloop\n  context:\n    cluster: kloop\n    user: kloop\ncurrent-context: kloop\n")
	return b.Bytes()
}
