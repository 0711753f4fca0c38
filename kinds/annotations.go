package kinds

// DNSAnnotation stands on a Node whose agent serves the cluster DNS. Its value is the port.
const DNSAnnotation = "kloop.dev/cluster-dns"
