package wellknown

// AddressCondition stands in the status of a Service of type LoadBalancer whose addresses kloop gives. True: it has them.
const AddressCondition = "kloop.dev/LoadBalancerAddress"

// AnnouncedCondition stands beside it where the address is one of a pool. True: there are nodes that may answer for it.
const AnnouncedCondition = "kloop.dev/LoadBalancerAnnounced"

// The reasons of the two conditions.
const (
	LBNodeAddresses   = "NodeAddresses"      // has the addresses of nodes
	LBPoolAddress     = "PoolAddress"        // has addresses of a pool
	LBNoNode          = "NoNode"             // no node qualifies
	LBPortsTaken      = "PortsTaken"         // the ports are taken on all nodes that would qualify
	LBNoLocalEndpoint = "NoLocalEndpoint"    // externalTrafficPolicy Local, and no node that qualifies has an endpoint
	LBNoEndpoint      = "NoEndpoint"         // nothing serves, so that no node answers
	LBNoPool          = "NoPool"             // no pool is for this service
	LBPoolExhausted   = "PoolExhausted"      // the pools for it have no free address
	LBRequestRefused  = "RequestRefused"     // it asks for an address or pool that it can't have
	LBNoAdvertisement = "NoAdvertisement"    // no advertisement selects pool and service
	LBSharedSelector  = "SharedWithSelector" // advertisements that select services never announce shared addresses
	LBAggregate       = "AggregateTooWide"   // a BGPAdvertisement's aggregationLength reaches beyond the pool
	LBNoPeer          = "NoPeer"             // only BGP is to announce it, and no BGPPeer can be used
	LBNoSession       = "NoSession"          // only BGP is to announce it, and no session with a router is up
	LBCandidates      = "Candidates"         // nodes may answer
	LBRoutes          = "Routes"             // routers have been told the way to it
)

// The Leases by which nodes agree on the one that answers ARP and NDP for an address: one for each address, in AnnounceSpace. The
// controller writes their annotations, the nodes their holder.
const (
	AnnounceSpace       = "metallb-system"
	AnnounceLabel       = "kloop.dev/announce"   // "layer2", or "bgp": see BGPLease
	AnnouncedAddress    = "kloop.dev/address"    // the IP address
	AnnouncedCandidates = "kloop.dev/candidates" // JSON: list of Candidate, in the order of preference; none: nobody may answer
	AnnouncedServices   = "kloop.dev/services"   // NAMESPACE/NAME, separated by commas
	AnnouncedTrouble    = "kloop.dev/trouble"    // what keeps the holder from answering; absent: nothing
	AnnouncedForeign    = "kloop.dev/foreign"    // the holder's networks, of which none holds the address; absent: one does
)

// A Candidate is a node that may answer for an address.
type Candidate struct {
	Node       string   `json:"node"`
	Address    string   `json:"address"`              // of the node, for heartbeats
	Interfaces []string `json:"interfaces,omitempty"` // none: all that qualify
}

// The Lease that says what a node announces by BGP, and how its sessions are. It is named by BGPLease and carries the label
// AnnounceLabel "bgp". The controller writes BGPPlanned, the node BGPSessions, and nobody renews it.
const (
	BGPPlanned  = "kloop.dev/bgp"          // JSON: BGPPlan
	BGPSessions = "kloop.dev/bgp-sessions" // JSON: BGPSession by the peer's name
)

// BGPLease names the Lease of a node.
func BGPLease(node string) string { return "bgp-" + node }

// A BGPPlan says which routers a node speaks to, and what it tells them.
type BGPPlan struct {
	Peers  []BGPPeer  `json:"peers"`
	Routes []BGPRoute `json:"routes,omitempty"`
}

// A BGPPeer is a BGPPeer of MetalLB's, as far as a node needs it. Times are in milliseconds.
type BGPPeer struct {
	Name      string `json:"name"`
	Address   string `json:"address"`
	Port      uint16 `json:"port,omitempty"`
	MyAS      uint32 `json:"myAS"`
	PeerAS    uint32 `json:"peerAS,omitempty"`
	Internal  bool   `json:"internal,omitempty"` // says what a PeerAS of 0 means
	Source    string `json:"source,omitempty"`
	RouterID  string `json:"routerID,omitempty"`
	MultiHop  bool   `json:"multiHop,omitempty"`
	Graceful  bool   `json:"graceful,omitempty"`
	Both      bool   `json:"both,omitempty"`
	Hold      int64  `json:"hold,omitempty"` // negative: forever
	Keepalive int64  `json:"keepalive,omitempty"`
	Connect   int64  `json:"connect,omitempty"`
	Password  string `json:"password,omitempty"` // as it stands in the BGPPeer
	// Secret names the one in AnnounceSpace that has the password, and SecretVersion is its resourceVersion: a node reads it, and again when
	// that changes.
	Secret        string `json:"secret,omitempty"`
	SecretVersion string `json:"secretVersion,omitempty"`
}

// A BGPRoute is prefixes that are announced alike to one peer.
type BGPRoute struct {
	Prefixes    []string    `json:"prefixes"`
	Peer        string      `json:"peer"`
	LocalPref   uint32      `json:"localPref,omitempty"`
	Communities []uint32    `json:"communities,omitempty"`
	Large       [][3]uint32 `json:"large,omitempty"`
}

// A BGPSession says how a node gets on with a peer.
type BGPSession struct {
	Established bool   `json:"established"`
	Trouble     string `json:"trouble,omitempty"` // why it is not established; "": it has just begun
	Routes      int    `json:"routes,omitempty"`  // that the peer has been told
}
