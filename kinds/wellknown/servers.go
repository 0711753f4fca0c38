package wellknown

// The ConfigMap in which API servers write all names and addresses of their serving certificates, those of servers that
// are gone too: clients still use them, and believe who has a certificate for them. It lies in kube-system, one name a
// line. Nodes may not write it. Without it no node gets a serving certificate.
const (
	ServersName = "kloop-api-servers"
	ServersKey  = "hosts"
)
