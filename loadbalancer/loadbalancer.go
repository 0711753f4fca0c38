// Package loadbalancer is the node's part of load balancers' addresses: it answers ARP and NDP for addresses of pools (layer 2, as
// MetalLB's speaker does), or tells routers the way to them by BGP, and says which ports of its own addresses the node has free for
// Services.
//
//	reads   Leases in metallb-system, and the Secrets that they name; Services, the node's own Node and pods; the kernel's interfaces
//	        and tables of sockets
//	writes  Lease: holder, annotations kloop.dev/trouble and kloop.dev/bgp-sessions; the own Node's annotation kloop.dev/taken-ports;
//	        ARP and NDP packets; heartbeats; BGP sessions (package bgp)
//	rule    of the nodes that may answer for an address one does; when it is lost another takes over, and never do two
//
// An address stands on no interface: packet sockets answer for it, and the service proxy catches what is sent to it. So it does not
// matter how services are proxied, and no kernel answers by itself.
//
// # Who answers
//
// Each address has a Lease. The loop load-balancer writes the nodes that may answer into it, in order (Candidate); the node that
// does is its holder. The Lease is not renewed: it changes when the holder does. What each node does next is a pure function of the
// Lease and of what it has heard (duty.decide).
//
//   - A free Lease is taken by the first candidate, by compare-and-swap on its revision; each candidate waits 150 ms longer than the
//     one before. A node that holds one keeps it as long as it may: nothing moves because a better candidate came back.
//   - The holder sends a heartbeat to the other candidates every 200 ms, over UDP. One that has heard it, and then hears nothing for 1 s,
//     takes the Lease. One that never heard it does not: perhaps a firewall is in the way. Then the holder is replaced once its Node is not
//     ready and the controller takes it off the list.
//   - A holder that may no longer answer, or can't, or ends in order, stops answering first and then frees the Lease.
//
// # Why never two
//
// A Lease alone would not do: a holder that is cut off from the API does not see that it lost it, and one that answered only while it
// can renew would fall silent whenever the API does. So the link is asked too. A node that has taken a Lease tells the holder before it,
// over UDP, to yield, and sends three ARP (or NDP) probes within 150 ms, as RFC 5227 has it for hosts; it answers only when nobody else
// did. While somebody does, it asks again every second, and says so in the Lease.
//
//	the holder before it        stops because
//	is gone                     it is gone
//	sees the API                the Lease names another
//	sees the nodes, not the API another node tells it to yield; it answers again only when its Lease is confirmed at that revision or a
//
// later one
//
//	sees neither                it does not stop, and the new one hears it answer, and waits
//	stood still (600 ms)        it drops what it is asked until it has confirmed its Lease; nobody takes over before 1 s
//
// What is left is a network that is cut in two and heals: on each side one node may answer.
package loadbalancer
