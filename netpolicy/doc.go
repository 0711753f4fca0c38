// Package netpolicy enforces NetworkPolicy: which connections pods may open and accept.
//
//	reads   NetworkPolicies, Pods, Namespaces, Nodes
//	writes  the nftables tables kloop-policy (ip and ip6) of the network namespace that it runs in
//	rule    a connection passes if the policies of its source's egress and of its destination's ingress allow it
//
// Three parts follow from one Model, which is a pure function of a snapshot. Judge is the simulator: it decides one connection by the
// API's words and names the policies that decide. Plan compiles the same policies to the chains and sets of one node. Run keeps
// the kernel in step with the plan: it observes what the kernel has, and sends the difference in one transaction.
//
// The semantics are those of networking.k8s.io/v1: a pod is isolated in a direction once any policy of its namespace selects it for that
// direction; then only what some rule allows passes. There is no order and there are no denying rules. Replies to a connection that was
// allowed always pass. What the API leaves open is decided so:
//
//   - Pods on the host's network are not subject to policies, and no selector matches them; an ipBlock can match their address.
//   - A pod and the node that it runs on always reach each other, so that probes and the cluster's DNS work under any policy.
//   - A pod always reaches itself.
//   - A change of policy judges new connections; those that are established go on.
//   - Of protocols without ports, such as ICMP, only rules without ports let any through. Neighbour discovery always passes.
package netpolicy
