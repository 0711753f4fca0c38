// Package loadbalancer is the node's part of load balancers' addresses: it says which ports the node has free for Services.
//
//	reads   Services, the node's own Node and pods; the kernel's tables of sockets
//	writes  the own Node's annotation kloop.dev/taken-ports
//	rule    the annotation names the ports that programs of the node, and its pods' hostPorts, have at the node's addresses
//
// The loop load-balancer gives a Service the addresses of nodes that have its ports free, and the node's service proxy takes no port
// that the annotation names: a Service of port 22 does not take the way to sshd.
package loadbalancer
