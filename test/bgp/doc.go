// Package bgp tries the speaker of loadbalancer/bgp with GoBGP as its peer, between network namespaces. It is a module of its own, so
// that neither kloop nor who imports it has to fetch GoBGP.
package bgp
