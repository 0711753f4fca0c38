package kinds

// DNSAnnotation stands on a Node whose agent serves the cluster DNS. Its value is the port.
const DNSAnnotation = "kloop.dev/cluster-dns"

// TakenPortsAnnotation stands on a Node that serves Services at its own addresses. Its value lists the ports there that programs of the
// node listen on, sorted, as in "22/TCP,6443/TCP"; "" when there are none.
const TakenPortsAnnotation = "kloop.dev/taken-ports"
