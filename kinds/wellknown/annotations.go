// Package wellknown has the well-known annotations, labels, conditions and words by which kloop's loops, servers and agents of nodes agree
// on what stands in objects of Kubernetes.
package wellknown

// DNSAnnotation stands on a Node whose agent serves the cluster DNS. Its value is the port.
const DNSAnnotation = "kloop.dev/cluster-dns"

// DNSCustomAnnotation stands on the Service kube-system/kube-dns: what the ConfigMap coredns-custom adds to the cluster DNS, in the form of
// internal/corefile. Nodes read Services, and no ConfigMaps but those of their pods. The loop cluster-dns writes it.
const DNSCustomAnnotation = "kloop.dev/coredns-custom"

// TakenPortsAnnotation stands on a Node that serves Services at its own addresses. Its value lists the ports there that programs of the
// node listen on, sorted, as in "22/TCP,6443/TCP"; "" when there are none.
const TakenPortsAnnotation = "kloop.dev/taken-ports"
